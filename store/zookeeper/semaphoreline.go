package zookeeper

import (
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

// The parents of a semaphore's nodes, below its name.
const (
	locksDir  = "/locks"
	leasesDir = "/leases"
)

// maxPermits is how many nodes a claim may have under leases.
const maxPermits = 128

// partID returns the id of a part of a claim: the claim's id and the tag of the node.
func partID(id, tag string) string { return id + "/" + tag }

// cutPart splits the id of a part.
func cutPart(id string) (whole, tag string) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return id, ""
	}
	return id[:i], id[i+1:]
}

// partStem returns the name of a part's node, up to the number. All parts of a claim begin with the claim's guid.
func partStem(id, word string) string {
	whole, tag := cutPart(id)
	return guid(whole) + tag + "-" + word
}

// shapeTag returns the part of a node's name with the weight and capacity of its claim. Other clients' nodes have no such
// tag.
func shapeTag(c *driver.Claim) string {
	if c.Weight == driver.All {
		return "x"
	}
	return fmt.Sprintf("p%dof%d", c.Weight, c.Capacity)
}

// readTag reads weight and capacity from the name of a semaphore's node, and the key with which all nodes of its claim
// begin. It returns false for another client's node.
func readTag(name, word string) (key string, weight, capacity int64, ok bool) {
	at := strings.LastIndex(name, word)
	size := len(guid(""))
	if at <= size || !strings.HasPrefix(name, "_c_") {
		return name, 0, 0, false
	}
	tag, ok := strings.CutSuffix(strings.TrimLeft(name[size:at], "0123456789"), "-")
	if ok && tag == "x" {
		return name[:size], driver.All, driver.All, true
	}
	n := node{weight: driver.All, capacity: driver.All}
	n.shape("-" + tag + "-")
	if !ok || fmt.Sprintf("p%dof%d", n.weight, n.capacity) != tag {
		return name, 0, 0, false
	}
	return name[:size], n.weight, n.capacity, true
}

// permit sets the weight of a node under leases: one permit, or all for a mutex. Of another client's semaphore the number
// of permits is unknown.
func (n *node) permit() {
	_, weight, capacity, ok := readTag(n.name, leaseWord)
	n.weight, n.capacity = 1, capacity
	if ok && weight == driver.All {
		n.weight = driver.All
	}
}

// adopt counts the permits of other clients among the permits of stile's claims. Beside a mutex, or readers and writers,
// each counts as a mutex.
func adopt(q queue) {
	capacity := int64(0)
	for _, n := range q {
		if capacity == 0 {
			capacity = n.capacity
		}
	}
	for i := range q {
		if q[i].capacity != 0 {
			continue
		}
		if q[i].capacity = capacity; capacity == driver.All {
			q[i].weight = driver.All
		}
	}
}

// A bundle is the nodes of one claim of a semaphore.
type bundle struct {
	key      string   // the beginning of their names
	nodes    []string // their paths below the name's
	weight   int64
	capacity int64 // 0 if unknown
}

// A line is the claims of a semaphore: first the claims that have permits or are about to take them, then the claims that
// wait under locks.
type line []bundle

// newLine merges the children of both parents. The children of locks must have been read first: so a claim that moves from
// there to leases is seen at least once, and its nodes make one bundle.
func newLine(locks, leases []string) (l line, odd []string) {
	at := map[string]int{}
	add := func(n node, dir, word string) {
		key, weight, capacity, ok := readTag(n.name, word)
		if !ok {
			weight = 1
		}
		i, found := at[key]
		if !found {
			i = len(l)
			at[key] = i
			l = append(l, bundle{key: key, weight: weight, capacity: capacity})
		}
		l[i].nodes = append(l[i].nodes, dir+"/"+n.name)
	}
	permits, odd := leasesLayout.newQueue(leases)
	for _, n := range permits {
		add(n, leasesDir, leaseWord)
	}
	waiting, more := locksLayout.newQueue(locks)
	for _, n := range waiting {
		add(n, locksDir, lockWord)
	}
	l.adopt()
	return l, append(odd, more...)
}

// capacity returns the capacity of the first claim that has one, or 0.
func (l line) capacity() int64 {
	for _, b := range l {
		if b.capacity != 0 {
			return b.capacity
		}
	}
	return 0
}

// adopt gives other clients' claims the capacity of stile's.
func (l line) adopt() {
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
func (l line) find(id string) int {
	for i, b := range l {
		if b.key == guid(id) {
			return i
		}
	}
	return -1
}

// holding returns how many claims hold, or may: a claim under locks that has room takes its permits without waiting.
func (l line) holding() int {
	q := make(queue, len(l))
	for i, b := range l {
		q[i] = node{weight: b.weight, capacity: b.capacity}
	}
	if l.capacity() == 0 {
		return len(l) // only other clients' claims, whose capacity is unknown
	}
	return q.Holding()
}
