package zookeeper

import (
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

// Where the nodes of a semaphore stand, under its name.
const (
	locksDir  = "/locks"
	leasesDir = "/leases"
)

// maxPermits is how many nodes a claim may have under leases.
const maxPermits = 128

// partID is the id of a part of a claim: the claim's own and the tag of its node.
func partID(id, tag string) string { return id + "/" + tag }

// cutPart takes the id of a part apart.
func cutPart(id string) (whole, tag string) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return id, ""
	}
	return id[:i], id[i+1:]
}

// partStem is the name of a part's node, up to the number. All parts of a claim begin with the claim's guid.
func partStem(id, word string) string {
	whole, tag := cutPart(id)
	return guid(whole) + tag + "-" + word
}

// shapeTag says in a node's name what the claim wants. What has no such tag is another client's.
func shapeTag(c *driver.Claim) string {
	if c.Weight == driver.All {
		return "x"
	}
	return fmt.Sprintf("p%dof%d", c.Weight, c.Capacity)
}

// readTag reads what the claim of a semaphore's node wants, and with what all its nodes begin. It is false for the node
// of another client.
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

// permit reads what a node under leases counts as: one permit, or all of them for a mutex. Of another client's it is not
// known how many there are.
func (n *node) permit() {
	_, weight, capacity, ok := readTag(n.name, leaseWord)
	n.weight, n.capacity = 1, capacity
	if ok && weight == driver.All {
		n.weight = driver.All
	}
}

// adopt counts the permits of other clients as some of those that stile's claims are of. Beside a mutex, or readers and
// writers, each is a mutex.
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
	key      string   // what their names begin with
	nodes    []string // their paths, under that of the name
	weight   int64
	capacity int64 // 0 if nobody's is known
}

// A line is the claims of a semaphore: those that have permits, or are about to take them, and behind them those that
// wait under locks.
type line []bundle

// newLine puts the children of both parents together. Those under locks must have been read first: a claim that goes
// from there to leases is then seen at least once, and its nodes make one bundle.
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

// capacity is that of the first claim that tells it, or 0.
func (l line) capacity() int64 {
	for _, b := range l {
		if b.capacity != 0 {
			return b.capacity
		}
	}
	return 0
}

// adopt gives the claims of other clients the capacity of those that tell theirs.
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

// find returns where a claim stands, or -1.
func (l line) find(id string) int {
	for i, b := range l {
		if b.key == guid(id) {
			return i
		}
	}
	return -1
}

// holding reports how many claims hold, or may: one that stands under locks yet takes its permits without waiting.
func (l line) holding() int {
	q := make(queue, len(l))
	for i, b := range l {
		q[i] = node{weight: b.weight, capacity: b.capacity}
	}
	if l.capacity() == 0 {
		return len(l) // those of other clients alone, who do not say
	}
	return q.Holding()
}
