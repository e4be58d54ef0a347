package etcd

import (
	"context"
	"fmt"

	"github.com/stilelock/stile/internal/storeid"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Identity implements [driver.Identifier]. The id is the value of a key without a lease. The key has no slash after the
// prefix, so it stands in no queue. Identity takes one read, and one more transaction if there is no id yet. The
// transaction puts an id, unless there is one by now, and reads it. So concurrent callers get the same id, and after a lost
// answer the caller can ask again.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	key := d.wire.prefix + storeid.Place
	id, err := d.keepID(bounded, key)
	if err != nil {
		return "", d.wire.explain(ctx, err)
	}
	return storeid.Check(fmt.Sprintf("key %q", key), id)
}

// keepID returns the value of a key. If there is no such key, it puts a random value.
func (d *Driver) keepID(ctx context.Context, key string) (string, error) {
	get := clientv3.OpGet(key)
	r, err := d.wire.read(ctx, get)
	if err == nil && r.Responses[0].GetResponseRange().Count == 0 {
		put := clientv3.OpPut(key, storeid.Draw())
		r, err = d.wire.commit(ctx, []clientv3.Cmp{missing(key)}, []clientv3.Op{put, get}, []clientv3.Op{get})
	}
	if err != nil {
		return "", err
	}
	return string(r.Responses[len(r.Responses)-1].GetResponseRange().Kvs[0].Value), nil
}
