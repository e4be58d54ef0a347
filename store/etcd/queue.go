package etcd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// An entry is one key of a name: a claim, or another client's key.
type entry struct {
	value
	key               string
	created, modified int64 // revisions
	lease             int64 // the key's lease; 0 means none
	foreign           bool  // another client's, not stile's
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

// home returns the lease in the key's name.
func (e *entry) home() (id int64, ok bool) {
	return leaseIn(e.key)
}

// life returns the claim's lease: mostly the one in the key's name.
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

// is reports whether the entry is the claim, and has not left.
func is(c *driver.Claim, e *entry) bool {
	return !e.foreign && e.ID == c.ID && !e.Left && (c.Ticket == 0 || c.Ticket == e.created)
}

// Facts returns the parts of the entry that the rule of the queue reads. A foreign key takes the whole lock.
func (e entry) Facts() keyqueue.Facts {
	f := keyqueue.Facts{
		ID: e.ID, Client: e.Client, Owner: string(e.Owner), Record: string(e.Record),
		Ticket: e.created, Weight: e.Weight, Capacity: e.Capacity, Left: e.Left, Foreign: e.foreign,
	}
	if f.Foreign {
		f.Weight, f.Capacity = driver.All, driver.All
	}
	if e.Since > 0 {
		f.Since = time.UnixMilli(e.Since)
	}
	return f
}

// A queue is all keys of a name, or the keys up to one of them, by create revision.
type queue = keyqueue.Queue[entry]

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

// only returns the entry of the first key, or nil.
func only(kvs []*mvccpb.KeyValue) *entry {
	if len(kvs) == 0 {
		return nil
	}
	e := entryOf(kvs[0])
	return &e
}

// keyAt returns the index of a key in a queue, or -1.
func keyAt(q queue, key string) int {
	return slices.IndexFunc(q, func(e entry) bool { return e.key == key })
}
