package etcd

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	page      = 1000 // keys in one answer
	mostTimed = 64   // limit of the claims whose leases List asks for
)

// List takes one request for one name, and one or two more for each of its first 64 claims, which ask for the remaining time
// of the leases. For a prefix it reads all keys in pages, and returns no remaining times. It then leaves out a name whose
// keys have no lease: no client that locks makes such keys.
func (d *Driver) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name == "" {
		list, err := d.listAll(ctx, q.Prefix)
		return list, d.wire.explain(ctx, err)
	}
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := d.listOne(bounded, q.Name)
	return list, d.wire.explain(ctx, err)
}

func (d *Driver) listOne(ctx context.Context, name string) ([]driver.Listing, error) {
	q, _, err := d.wire.readQueue(ctx, name)
	if err != nil || len(q) == 0 {
		return nil, err
	}
	l := listing(name, q)
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range q[:min(len(q), mostTimed)] {
		slots <- struct{}{}
		all.Go(func() {
			l.Claims[i].Remaining = d.wire.remaining(ctx, &q[i])
			<-slots
		})
	}
	all.Wait()
	return []driver.Listing{l}, nil
}

func listing(name string, q queue) driver.Listing {
	return driver.Listing{Name: name, Capacity: q.Capacity(), Claims: q.Standings()}
}

// remaining returns the time left of a claim's lease. If only the lock-delay is left, it returns the negative of the time
// left of the delay. 0 means unknown.
func (w *wire) remaining(ctx context.Context, e *entry) time.Duration {
	life, named := e.life()
	if named && life != e.lease && !e.Left && !e.foreign {
		if left := w.timeToLive(ctx, life); left != 0 {
			return left
		}
		return -w.timeToLive(ctx, e.lease)
	}
	return w.timeToLive(ctx, e.lease)
}

// timeToLive returns the time left of a lease; 0 if the lease has ended, or if etcd does not answer.
func (w *wire) timeToLive(ctx context.Context, id int64) time.Duration {
	if id == 0 {
		return 0
	}
	r, err := w.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0
	}
	return time.Duration(max(0, r.TTL)) * time.Second
}

func (d *Driver) listAll(ctx context.Context, prefix string) ([]driver.Listing, error) {
	begin := d.wire.prefix
	if prefix != "." && prefix != ".." { // only these two are encoded differently when more follows
		begin += driver.EncodeName(prefix)
	}
	keys := map[string][]*mvccpb.KeyValue{} // by name
	from, end, revision := begin, clientv3.GetPrefixRangeEnd(begin), int64(0)
	if begin == "" {
		from, end = "\x00", "\x00"
	}
	for more := true; more; {
		r, err := d.wire.listPage(ctx, from, end, revision)
		if err != nil {
			return nil, err
		}
		driver.Heard(ctx, len(r.Kvs))
		for _, kv := range r.Kvs {
			if name, ok := d.wire.nameOf(string(kv.Key)); ok && strings.HasPrefix(name, prefix) {
				keys[name] = append(keys[name], kv)
			}
			from = string(kv.Key) + "\x00"
		}
		revision, more = r.Header.Revision, r.More
	}
	var all []driver.Listing
	for name, kvs := range keys {
		if slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool { return kv.Lease != 0 }) {
			all = append(all, listing(name, queueOf(kvs)))
		}
	}
	slices.SortFunc(all, func(a, b driver.Listing) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// listPage reads a page of keys of a range, at a revision; 0 means the present one.
func (w *wire) listPage(ctx context.Context, from, end string, revision int64) (*clientv3.GetResponse, error) {
	bounded, done, err := w.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.client.Get(bounded, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
}

// nameOf returns the name whose queue a key is in.
func (w *wire) nameOf(key string) (string, bool) {
	text, _, ok := strings.Cut(strings.TrimPrefix(key, w.prefix), "/")
	if !ok {
		return "", false
	}
	name, err := driver.DecodeName(text)
	return name, err == nil && name != ""
}
