package shard

import "hash/fnv"

// A list is the stores among which names are spread.
type list []member

// A member is a store in a list, and the seeds for its rank for a name: one for each part of its weight.
type member struct {
	*store
	seeds []uint64
}

func newMember(st *store, weight int) member {
	m := member{store: st}
	seed := digest(st.name)
	for range weight {
		seed = mix(seed)
		m.seeds = append(m.seeds, seed)
	}
	return m
}

// home returns the store of a name: the one that ranks highest for it. The ranks of two stores do not depend on the others.
// So a new store takes names from all, a removed store leaves its names to all, and no other name moves. It is integer
// arithmetic, the same on every machine.
func (l list) home(name string) *store {
	key := digest(name)
	var (
		best *store
		most uint64
	)
	for _, m := range l {
		for _, seed := range m.seeds {
			if rank := mix(mix(key^seed) + seed); best == nil || rank > most || rank == most && m.name < best.name {
				best, most = m.store, rank
			}
		}
	}
	return best
}

// digest is FNV-1a.
func digest(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// mix is the step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): each bit of the result depends on all of n.
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// homes returns the stores of a name, by each list: one, or two for a name that moves.
func (s *shards) homes(name string) (from, to *store) {
	to = s.lists[len(s.lists)-1].home(name)
	if from = s.lists[0].home(name); from == to {
		return nil, to
	}
	return from, to
}
