package curator

import (
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A bundle is the nodes of one claim of a semaphore.
type bundle struct {
	key      string   // the beginning of their names
	nodes    []string // their paths below the name's
	weight   int64
	capacity int64 // 0 if unknown
}

// A bundles is the claims of a semaphore: first the claims that have permits or are about to take them, then the claims that
// wait under locks.
type bundles []bundle

// newBundles merges the children of both parents. The caller has read the children of locks first: so a claim that moves
// from there to leases is seen at least once, and its nodes make one bundle.
func newBundles(locks, leases []string) (l bundles, odd []string) {
	at := map[string]int{}
	add := func(n znode.Node, dir, word string) {
		key, weight, capacity, ok := znode.ReadTag(n.Name, word)
		if !ok {
			weight = 1
		}
		i, found := at[key]
		if !found {
			i = len(l)
			at[key] = i
			l = append(l, bundle{key: key, weight: weight, capacity: capacity})
		}
		l[i].nodes = append(l[i].nodes, dir+"/"+n.Name)
	}
	permits, odd := znode.Leases.NewQueue(leases)
	for _, n := range permits {
		add(n, znode.LeasesDir, znode.LeaseWord)
	}
	waiting, more := znode.Locks.NewQueue(locks)
	for _, n := range waiting {
		add(n, znode.LocksDir, znode.LockWord)
	}
	l.adopt()
	return l, append(odd, more...)
}

// capacity returns the capacity of the first claim that has one, or 0.
func (l bundles) capacity() int64 {
	for _, b := range l {
		if b.capacity != 0 {
			return b.capacity
		}
	}
	return 0
}

// adopt gives other clients' claims the capacity of stile's.
func (l bundles) adopt() {
	capacity := l.capacity()
	for i := range l {
		if l[i].capacity != 0 {
			continue
		}
		if l[i].capacity = capacity; capacity == driver.All {
			l[i].weight = driver.All
		}
	}
}

// find returns the index of a claim, or -1.
func (l bundles) find(id string) int {
	for i, b := range l {
		if b.key == znode.GUID(id) {
			return i
		}
	}
	return -1
}

// holding returns how many claims hold, or may: a claim under locks that has room takes its permits without waiting.
func (l bundles) holding() int {
	q := make(znode.Queue, len(l))
	for i, b := range l {
		q[i] = znode.Node{Weight: b.weight, Capacity: b.capacity}
	}
	if l.capacity() == 0 {
		return len(l) // only other clients' claims, whose capacity is unknown
	}
	return q.Holding()
}
