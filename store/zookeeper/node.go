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
	mutexLayout     layout = iota // Curator's mutex and go-zookeeper's lock see every claim as one of theirs
	rwLayout                      // Curator's read-write lock does; there are no permits
	latchLayout                   // Curator's leader latch does
	semaphoreLayout               // Curator's semaphore does. A name has the two parents that follow
	locksLayout                   // what stands under locks: one of them at a time may take permits
	leasesLayout                  // what stands under leases: each is a permit
)

// A node is a claim as the name of its node tells it, and with what the node holds if that was read.
type node struct {
	name     string
	seq      int32 // what the server appended
	weight   int64
	capacity int64
	read     *wire.Call // nil if it was not read
}

// Facts are what the rule needs of the node. Another client's node counts as a mutex, or as a reader or writer, and so its name
// tells a capacity.
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

// lockWords are those of all locks that are not semaphores, and kazoo's.
var lockWords = []string{lockWord, latchWord, readWord, writeWord, "__lock__", "__rlock__"}

// guid is what the names of a claim's nodes begin with: it is found by this again if the reply to its making is lost.
func guid(id string) string {
	h := sha256.Sum256([]byte(id))
	return fmt.Sprintf("_c_%x-%x-%x-%x-%x-", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// stem is the name of a claim's node, up to the number.
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

// parse takes the name of a node apart. What is a lock of another client's counts as exclusive, or as a reader or writer
// where they are; it is false for what is no lock at all.
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
	case l == locksLayout: // whatever it wants, it goes through alone
	case l == rwLayout && word == readWord:
		n.weight = 1
	case (word == lockWord || word == latchWord) && strings.HasPrefix(name, "_c_"):
		n.shape(name[:at])
	}
	return n, true
}

// shape reads weight and capacity from what stands before the last word. What is not understood stays exclusive.
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

// before reports whether one sequence number was given before another of the same time: they wrap at 2^31.
func before(a, b int32) bool { return a-b < 0 }

// A queue is the claims of a name in the order in which they entered.
type queue = keyqueue.Queue[node]

// newQueue orders the children of a lock by the numbers in their names, which agree with the order of creation. It
// returns too the names that are no claims.
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

// named returns where the claim is whose names begin like this, or -1.
func named(q queue, guid string) int {
	return slices.IndexFunc(q, func(n node) bool { return strings.HasPrefix(n.name, guid) })
}

// plain reports whether a node is one of a mutex, or named like one, in whose place no client of others puts another node.
func (n *node) plain() bool {
	before := strings.TrimRight(n.name, "0123456789")
	return strings.HasSuffix(before, lockWord) || strings.HasSuffix(before, latchWord)
}

// succeeds reports whether the claim at an index holds once the node before it is deleted. That is so for the second of
// mutexes, whose numbers rise. It is not so for readers and writers: a reader of Curator's that held to write has the
// writer's number, and goes on when the writer's node is deleted. A claim of stile's that is amended has another node in
// its place, but is not heard to be deleted; see [wire.Replace].
func succeeds(q queue, own int) bool {
	return own == 1 && q[0].plain() && q[1].plain() && q[0].seq < q[1].seq && q[1].seq < math.MaxInt32
}
