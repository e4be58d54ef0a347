package explore

import "sync"

// A set holds states by 62 bits of their hashes, and marks of each. Goroutines may use it at the same time. The probability
// that two of n states have the same 62 bits is n²/2⁶³: one in ten thousand for thirty million states.
type set struct {
	shards [64]shard
}

// The marks of a state.
const (
	seen   uint64 = 1 << iota // the walk has reached it
	rested                    // its calm path ends well
	known  = seen | rested
)

type shard struct {
	mu    sync.Mutex
	slots []uint64 // the bits of a hash, and below them the marks; 0 means a free slot
	used  int
	count int // of the states with the mark seen
}

func newSet() *set { return &set{} }

// mark adds a mark to a state, and reports whether it is new.
func (s *set) mark(h Hash, what uint64) bool {
	d := s.shard(h)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used*5 >= len(d.slots)*4 {
		d.grow()
	}
	x := d.at(uint64(h))
	if *x&what != 0 {
		return false
	}
	if *x == 0 {
		*x = uint64(h) &^ known
		d.used++
	}
	*x |= what
	d.count += int(what & seen)
	return true
}

// has reports whether a state has a mark.
func (s *set) has(h Hash, what uint64) bool {
	d := s.shard(h)
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.slots) > 0 && *d.at(uint64(h))&what != 0
}

// len returns how many states were seen.
func (s *set) len() (n int64) {
	for i := range s.shards {
		d := &s.shards[i]
		d.mu.Lock()
		n += int64(d.count)
		d.mu.Unlock()
	}
	return n
}

func (s *set) shard(h Hash) *shard { return &s.shards[uint64(h)>>58] }

// at returns the slot of a hash, or the free slot for it.
func (d *shard) at(h uint64) *uint64 {
	mask := uint64(len(d.slots) - 1)
	for i := h >> 2 & mask; ; i = (i + 1) & mask {
		if x := &d.slots[i]; *x&known == 0 || (*x^h)&^known == 0 {
			return x
		}
	}
}

func (d *shard) grow() {
	old := d.slots
	d.slots = make([]uint64, max(64, 2*len(old)))
	for _, x := range old {
		if x != 0 {
			*d.at(x) = x
		}
	}
}
