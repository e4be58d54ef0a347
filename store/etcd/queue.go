package etcd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// folder is what the keys of a name begin with.
func (d *Driver) folder(name string) string { return d.prefix + driver.EncodeName(name) + "/" }

func wholeQueue(folder string) clientv3.Op { return clientv3.OpGet(folder, clientv3.WithPrefix()) }

// An entry is one key of a name.
type entry struct {
	value
	key               string
	created, modified int64 // revisions
	lease             int64 // that it hangs on; 0 means none
	foreign           bool  // not stile's
}

func entryOf(kv *mvccpb.KeyValue) entry {
	e := entry{key: string(kv.Key), created: kv.CreateRevision, modified: kv.ModRevision, lease: kv.Lease}
	var ours bool
	e.value, ours = decode(kv.Value)
	_, named := e.home()
	_, lives := e.life()
	e.foreign = !ours || !named || !lives
	return e
}

// home is the lease that the key is named for.
func (e *entry) home() (id int64, ok bool) {
	return leaseIn(e.key)
}

// life is the lease that the claim lives by: mostly the one that its key is named for.
func (e *entry) life() (id int64, ok bool) {
	if e.Lease != "" {
		return leaseIn(e.Lease)
	}
	return e.home()
}

func leaseIn(key string) (id int64, ok bool) {
	hex := key[strings.LastIndexByte(key, '/')+1:]
	n, err := strconv.ParseInt(hex, 16, 64)
	return n, err == nil && n > 0 && hexOf(n) == hex
}

func hexOf(lease int64) string { return strconv.FormatInt(lease, 16) }

// is reports whether the entry is the claim, and it can still be renewed.
func is(c *driver.Claim, e *entry) bool {
	return !e.foreign && e.ID == c.ID && !e.Left && (c.Ticket == 0 || c.Ticket == e.created)
}

// A queue is all the keys of a name, or those up to one of them, in the order in which they were created.
type queue []entry

func queueOf(kvs []*mvccpb.KeyValue) queue {
	q := make(queue, 0, len(kvs))
	for _, kv := range kvs {
		q = append(q, entryOf(kv))
	}
	slices.SortFunc(q, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.key, b.key))
	})
	return q
}

// only returns the entry of the first of keys, or nil.
func only(kvs []*mvccpb.KeyValue) *entry {
	if len(kvs) == 0 {
		return nil
	}
	e := entryOf(kvs[0])
	return &e
}

func (q queue) find(id string) int {
	return slices.IndexFunc(q, func(e entry) bool { return e.ID == id && !e.foreign })
}

func (q queue) at(key string) int {
	return slices.IndexFunc(q, func(e entry) bool { return e.key == key })
}

// capacity is that of the claim that entered first. Foreign clients know of none.
func (q queue) capacity() int64 {
	if i := slices.IndexFunc(q, func(e entry) bool { return !e.foreign }); i >= 0 {
		return q[i].Capacity
	}
	return driver.All
}

// weights are those of the entries; a foreign one takes all there is.
func (q queue) weights(capacity int64) []int64 {
	list := make([]int64, len(q))
	for i := range q {
		if list[i] = q[i].Weight; q[i].foreign {
			list[i] = capacity
		}
	}
	return list
}

func (q queue) holding() int {
	capacity := q.capacity()
	return driver.Holding(capacity, q.weights(capacity))
}

// fits reports whether a claim at the tail would hold.
func (q queue) fits(weight, capacity int64) bool {
	return driver.Holding(capacity, append(q.weights(capacity), weight)) == len(q)+1
}

// place tells where entry i stands, or, if i is one past the tail, where it would.
func (q queue) place(i int) driver.Place {
	p := driver.Place{Ahead: i}
	if i < len(q) {
		p.Ticket, p.Holds = q[i].created, i < q.holding()
	}
	if !p.Holds && i > 0 {
		p.Blocker = q.standing(0)
	}
	return p
}

func (q queue) standing(i int) driver.ClaimInfo {
	e := &q[i]
	s := driver.ClaimInfo{
		Ticket: e.created, Weight: q.weights(q.capacity())[i], Holds: i < q.holding(), Left: e.Left, Record: string(e.Record),
	}
	if e.Since > 0 {
		s.Since = max(0, time.Since(time.UnixMilli(e.Since)))
	}
	return s
}
