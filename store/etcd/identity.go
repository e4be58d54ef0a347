package etcd

import (
	"context"
	"fmt"

	"github.com/stilelock/stile/internal/storeid"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Identity is [driver.Identifier.Identity]. The id is the value of a key of its own, without a lease, which has no slash
// after the prefix and so stands in no queue. It is one read, and one transaction more while there is no id. That
// transaction puts an id unless there is one, and tells which there is: so all who ask at once get the same, and one whose
// answer was lost asks again.
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

// keepID returns the value of a key, which is drawn if there is no such key.
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
