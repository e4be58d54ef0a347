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
	if weight, ok := countedTag(tag); ok {
		return name[:size], weight, byCount, true
	}
	n := node{weight: driver.All, capacity: driver.All}
	n.shape("-" + tag + "-")
	if !ok || fmt.Sprintf("p%dof%d", n.weight, n.capacity) != tag {
		return name, 0, 0, false
	}
	return name[:size], n.weight, n.capacity, true
}

// countedTag reads how many permits a claim wants that goes by the name's own count.
func countedTag(tag string) (weight int64, ok bool) {
	_, err := fmt.Sscanf(tag, "p%dof0", &weight)
	return weight, err == nil && weight > 0 && tag == fmt.Sprintf("p%dof0", weight)
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
func (q queue) adopt() {
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
	capacity int64 // 0 if nobody's is known; byCount, and then count is it
	count    int64
	enters   bool // it has not all its permits yet
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
		l[i].enters = l[i].enters || dir == locksDir
	}
	permits, odd := leasesLayout.newQueue(leases)
	for _, n := range permits {
		add(n, leasesDir, leaseWord)
	}
	waiting, more := locksLayout.newQueue(locks)
	for _, n := range waiting {
		add(n, locksDir, lockWord)
	}
	// Curator's permit that waits for room is the last of all, and its mutex is the first.
	if last := len(permits) - 1; last >= 0 && len(waiting) > 0 && foreign(permits[last].name, leaseWord) && foreign(waiting[0].name, lockWord) {
		l[at[permits[last].name]].enters = true
	}
	l.adopt()
	return l, append(odd, more...)
}

func foreign(name, word string) bool {
	_, _, _, ours := readTag(name, word)
	return !ours
}

// countBy notes the name's own count.
func (l line) countBy(n int64) {
	for i := range l {
		l[i].count = n
	}
}

// capacity is that of the first claim that tells it, byCount if that goes by the count, or 0.
func (l line) capacity() int64 {
	for _, b := range l {
		if b.capacity != 0 {
			return b.capacity
		}
	}
	return 0
}

// goesBy is the capacity of a claim; that of one that goes by the count is the count.
func (b *bundle) goesBy() int64 {
	if b.capacity == byCount {
		return b.count
	}
	return b.capacity
}

// otherThan returns a claim that has another capacity than one that comes, and keeps it out: the first that tells it, or one
// that holds beside that, since the count has changed; or nil. One that enters yet may be about to be sent away.
func (l line) otherThan(capacity int64) *bundle {
	told := false
	for i := range l {
		if l[i].capacity == 0 || told && l[i].enters {
			continue
		}
		if told = true; l[i].goesBy() != capacity {
			return &l[i]
		}
	}
	return nil
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

// holding reports how many claims hold, or may: one that stands under locks yet takes its permits without waiting. By a count,
// which may have become lower, those that have all their permits hold whatever it is.
func (l line) holding() int {
	if l.capacity() == byCount {
		left := l[0].count
		for i, b := range l {
			if left -= b.weight; left < 0 && b.enters {
				return i
			}
		}
		return len(l)
	}
	q := make(queue, len(l))
	for i, b := range l {
		q[i] = node{weight: b.weight, capacity: b.capacity}
	}
	if l.capacity() == 0 {
		return len(l) // those of other clients alone, who do not say
	}
	return q.holding()
}
