// Package znode has the names, the order and the data of claims' nodes, in each layout. It is pure.
package znode

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

// A Layout says how the nodes of claims are named.
type Layout int

const (
	Mutex     Layout = iota // Curator's mutex and go-zookeeper's lock take each claim for one of theirs
	ReadWrite               // Curator's read-write lock does so; there are no permits
	Latch                   // Curator's leader latch does so
	Semaphore               // Curator's semaphore does so; a name has two parents, in the next two layouts
	Locks                   // the nodes under locks: one of them at a time may take permits
	Leases                  // the nodes under leases: each is a permit
)

// A Node is a claim as the name of its node describes it, with the node's data if they were read.
type Node struct {
	Name     string
	Seq      int32 // the number that the server appended
	Weight   int64
	Capacity int64
	Read     *wire.Call // nil if it was not read
}

// Facts returns the parts of the node that the rule reads. Another client's node counts as a mutex, or as a reader or
// writer, so its capacity follows from its name, and no node is foreign. There is no id: a node's name has only its hash, by
// which Named finds the node.
func (n Node) Facts() keyqueue.Facts {
	f := keyqueue.Facts{Weight: n.Weight, Capacity: n.Capacity}
	if n.Read == nil || n.Read.Err != nil {
		return f
	}
	held := ReadData(n.Read.Data)
	f.Client, f.Owner, f.Record, f.Left = held.Client, held.Owner, held.Record, held.Kept > 0
	first := held.FirstBy(&n.Read.Stat)
	f.Ticket, f.Since = first.Ticket, time.UnixMilli(first.Since)
	return f
}

// The words before the number in names of locks: Curator's and go-zookeeper's mutex, Curator's leader latch, the permits of
// its semaphore, and its read-write lock.
const (
	LockWord  = "lock-"
	latchWord = "latch-"
	LeaseWord = "lease-"
	readWord  = "__READ__"
	writeWord = "__WRIT__"
)

// lockWords are the words of all locks that are not semaphores, including kazoo's.
var lockWords = []string{LockWord, latchWord, readWord, writeWord, "__lock__", "__rlock__"}

// GUID returns the beginning of the names of a claim's nodes. A client that lost the answer to a creation finds the node by
// it.
func GUID(id string) string {
	h := sha256.Sum256([]byte(id))
	return fmt.Sprintf("_c_%x-%x-%x-%x-%x-", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// Stem returns the name of a claim's node, up to the number.
func (l Layout) Stem(c *driver.Claim) string {
	switch l {
	case Locks:
		return partStem(c.ID, LockWord)
	case Leases:
		return partStem(c.ID, LeaseWord)
	}
	exclusive, word := c.Weight == driver.All, LockWord
	if l == Latch {
		word = latchWord
	}
	switch {
	case l == ReadWrite && exclusive:
		return GUID(c.ID) + writeWord
	case l == ReadWrite:
		return GUID(c.ID) + readWord
	case exclusive:
		return GUID(c.ID) + word
	case c.Weight == 1 && c.Capacity == driver.All:
		return GUID(c.ID) + "r-" + word
	}
	return fmt.Sprintf("%sp%dof%d-%s", GUID(c.ID), c.Weight, c.Capacity, word)
}

// Parse decodes the name of a node. Another client's lock counts as exclusive or, in the layout of the read-write lock, as
// a reader or writer. It returns false if the node is no lock.
func (l Layout) Parse(name string) (Node, bool) {
	at, word, words := -1, "", lockWords
	if l == Leases {
		words = []string{LeaseWord}
	}
	for _, w := range words {
		if i := strings.LastIndex(name, w); i > at {
			at, word = i, w
		}
	}
	if at < 0 {
		return Node{}, false
	}
	number := name[at+len(word):]
	seq, err := strconv.ParseInt(number, 10, 32)
	if err != nil || number[0] == '+' {
		return Node{}, false
	}
	n := Node{Name: name, Seq: int32(seq), Weight: driver.All, Capacity: driver.All}
	switch {
	case l == Leases:
		n.permit()
	case l == Locks: // whatever its weight, it goes through alone
	case l == ReadWrite && word == readWord:
		n.Weight = 1
	case (word == LockWord || word == latchWord) && strings.HasPrefix(name, "_c_"):
		n.shape(name[:at])
	}
	return n, true
}

// shape reads weight and capacity from the text before the last word. A claim whose text it cannot read stays exclusive.
func (n *Node) shape(before string) {
	i := strings.LastIndexByte(strings.TrimSuffix(before, "-"), '-')
	tag, ok := strings.CutSuffix(before[i+1:], "-")
	if !ok || i < 0 {
		return
	}
	if tag == "r" {
		n.Weight = 1
		return
	}
	var w, c int64
	if _, err := fmt.Sscanf(tag, "p%dof%d", &w, &c); err != nil || fmt.Sprintf("p%dof%d", w, c) != tag {
		return
	}
	if 1 <= w && w <= c && c <= driver.All {
		n.Weight, n.Capacity = w, c
	}
}

// before reports whether one sequence number was given before another one that exists at the same time: numbers wrap at
// 2^31.
func before(a, b int32) bool { return a-b < 0 }

// A Queue is the claims of a name in the order in which they entered.
type Queue = keyqueue.Queue[Node]

// NewQueue sorts the children of a lock by the numbers in their names, which is the order of their creation. It also
// returns the names that are no claims.
func (l Layout) NewQueue(children []string) (q Queue, odd []string) {
	for _, name := range children {
		if n, ok := l.Parse(name); ok {
			q = append(q, n)
		} else {
			odd = append(odd, name)
		}
	}
	slices.SortFunc(q, func(a, b Node) int {
		if a.Seq != b.Seq {
			return int(cmpWrapped(a.Seq, b.Seq))
		}
		return strings.Compare(a.Name, b.Name)
	})
	if l == Leases {
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

// Find returns the index of a node, or -1.
func Find(q Queue, name string) int {
	return slices.IndexFunc(q, func(n Node) bool { return n.Name == name })
}

// Named returns the index of the first node whose name begins with guid, or -1.
func Named(q Queue, guid string) int {
	return slices.IndexFunc(q, func(n Node) bool { return strings.HasPrefix(n.Name, guid) })
}

// plain reports whether a node is a mutex's, or named like one: no other client replaces such a node by another one.
func (n *Node) plain() bool {
	before := strings.TrimRight(n.Name, "0123456789")
	return strings.HasSuffix(before, LockWord) || strings.HasSuffix(before, latchWord)
}

// Succeeds reports whether the claim at an index holds once the node before it is deleted. This is true of mutexes, whose
// numbers rise, but not of readers and writers: if a client of Curator reads while it holds the write lock, its reader has
// the writer's number, and goes on after the writer's node is deleted. An amended claim of stile gets another node, but the
// old one is not reported as deleted; see [wire.Replace].
func Succeeds(q Queue, own int) bool {
	return own == 1 && q[0].plain() && q[1].plain() && q[0].Seq < q[1].Seq && q[1].Seq < math.MaxInt32
}

// Split takes a path apart.
func Split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}
