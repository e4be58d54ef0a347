package zookeeper

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A layout says how the nodes of claims are named.
type layout int

const (
	mutexLayout     layout = iota // for Curator's mutex and go-zookeeper's lock every claim is one of theirs
	rwLayout                      // the same for Curator's read-write lock; there are no permits
	latchLayout                   // the same for Curator's leader latch
	semaphoreLayout               // the same for Curator's semaphore; a name has two parents, in the next two layouts
	locksLayout                   // the nodes under locks: one of them at a time may take permits
	leasesLayout                  // the nodes under leases: each is a permit
)

// A node is a claim as the name of its node describes it, with the node's data if they were read.
type node struct {
	name     string
	seq      int32 // the number that the server appended
	weight   int64
	capacity int64
	read     *wire.Call // nil if it was not read
}

// Facts returns the parts of the node that the rule reads. Another client's node counts as a mutex, or as a reader or
// writer, so its capacity follows from its name.
func (n node) Facts() keyqueue.Facts {
	f := keyqueue.Facts{Weight: n.weight, Capacity: n.capacity}
	if n.read == nil || n.read.Err != nil {
		return f
	}
	held := readData(n.read.Data)
	f.Client, f.Owner, f.Record, f.Left = held.Client, held.Owner, held.Record, held.Kept > 0
	f.Ticket, f.Since = ticketOf(n.read), time.UnixMilli(n.read.Stat.Ctime)
	return f
}

// The words before the number in names of locks: Curator's and go-zookeeper's mutex, Curator's leader latch, the permits of
// its semaphore, and its read-write lock.
const (
	lockWord  = "lock-"
	latchWord = "latch-"
	leaseWord = "lease-"
	readWord  = "__READ__"
	writeWord = "__WRIT__"
)

// lockWords are the words of all locks that are not semaphores, including kazoo's.
var lockWords = []string{lockWord, latchWord, readWord, writeWord, "__lock__", "__rlock__"}

// guid is the beginning of the names of a claim's nodes, by which a node is found again if the answer to its creation is
// lost.
func guid(id string) string {
	h := sha256.Sum256([]byte(id))
	return fmt.Sprintf("_c_%x-%x-%x-%x-%x-", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// stem returns the name of a claim's node, up to the number.
func (l layout) stem(c *driver.Claim) string {
	switch l {
	case locksLayout:
		return partStem(c.ID, lockWord)
	case leasesLayout:
		return partStem(c.ID, leaseWord)
	}
	exclusive, word := c.Weight == driver.All, lockWord
	if l == latchLayout {
		word = latchWord
	}
	switch {
	case l == rwLayout && exclusive:
		return guid(c.ID) + writeWord
	case l == rwLayout:
		return guid(c.ID) + readWord
	case exclusive:
		return guid(c.ID) + word
	case c.Weight == 1 && c.Capacity == driver.All:
		return guid(c.ID) + "r-" + word
	}
	return fmt.Sprintf("%sp%dof%d-%s", guid(c.ID), c.Weight, c.Capacity, word)
}

// parse decodes the name of a node. Another client's lock counts as exclusive or, in the layout of the read-write lock, as
// a reader or writer. It returns false if the node is no lock.
func (l layout) parse(name string) (node, bool) {
	at, word, words := -1, "", lockWords
	if l == leasesLayout {
		words = []string{leaseWord}
	}
	for _, w := range words {
		if i := strings.LastIndex(name, w); i > at {
			at, word = i, w
		}
	}
	if at < 0 {
		return node{}, false
	}
	number := name[at+len(word):]
	seq, err := strconv.ParseInt(number, 10, 32)
	if err != nil || number[0] == '+' {
		return node{}, false
	}
	n := node{name: name, seq: int32(seq), weight: driver.All, capacity: driver.All}
	switch {
	case l == leasesLayout:
		n.permit()
	case l == locksLayout: // whatever its weight, it goes through alone
	case l == rwLayout && word == readWord:
		n.weight = 1
	case (word == lockWord || word == latchWord) && strings.HasPrefix(name, "_c_"):
		n.shape(name[:at])
	}
	return n, true
}

// shape reads weight and capacity from the text before the last word. If the text is not understood, the claim stays
// exclusive.
func (n *node) shape(before string) {
	i := strings.LastIndexByte(strings.TrimSuffix(before, "-"), '-')
	tag, ok := strings.CutSuffix(before[i+1:], "-")
	if !ok || i < 0 {
		return
	}
	if tag == "r" {
		n.weight = 1
		return
	}
	var w, c int64
	if _, err := fmt.Sscanf(tag, "p%dof%d", &w, &c); err != nil || fmt.Sprintf("p%dof%d", w, c) != tag {
		return
	}
	if 1 <= w && w <= c && c <= driver.All {
		n.weight, n.capacity = w, c
	}
}

// before reports whether one sequence number was given before another one that exists at the same time: numbers wrap at
// 2^31.
func before(a, b int32) bool { return a-b < 0 }

// A queue is the claims of a name in the order in which they entered.
type queue = keyqueue.Queue[node]

// newQueue sorts the children of a lock by the numbers in their names, which is the order of their creation. It also
// returns the names that are no claims.
func (l layout) newQueue(children []string) (q queue, odd []string) {
	for _, name := range children {
		if n, ok := l.parse(name); ok {
			q = append(q, n)
		} else {
			odd = append(odd, name)
		}
	}
	slices.SortFunc(q, func(a, b node) int {
		if a.seq != b.seq {
			return int(cmpWrapped(a.seq, b.seq))
		}
		return strings.Compare(a.name, b.name)
	})
	if l == leasesLayout {
		adopt(q)
	}
	return q, odd
}

func cmpWrapped(a, b int32) int32 {
	if before(a, b) {
		return -1
	}
	return 1
}

func find(q queue, name string) int {
	return slices.IndexFunc(q, func(n node) bool { return n.name == name })
}

// named returns the index of the claim whose names begin like this, or -1.
func named(q queue, guid string) int {
	return slices.IndexFunc(q, func(n node) bool { return strings.HasPrefix(n.name, guid) })
}

// plain reports whether a node is a mutex's, or named like one: no other client replaces such a node by another one.
func (n *node) plain() bool {
	before := strings.TrimRight(n.name, "0123456789")
	return strings.HasSuffix(before, lockWord) || strings.HasSuffix(before, latchWord)
}

// succeeds reports whether the claim at an index holds once the node before it is deleted. This is true of mutexes, whose
// numbers rise, but not of readers and writers: if a client of Curator reads while it holds the write lock, its reader has
// the writer's number, and goes on after the writer's node is deleted. An amended claim of stile gets another node, but the
// old one is not reported as deleted; see [wire.Replace].
func succeeds(q queue, own int) bool {
	return own == 1 && q[0].plain() && q[1].plain() && q[0].seq < q[1].seq && q[1].seq < math.MaxInt32
}
