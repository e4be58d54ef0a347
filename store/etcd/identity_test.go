package etcd

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/storeid"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func identify(t testing.TB, d *Driver) string {
	t.Helper()
	id, err := d.Identity(timely(t))
	if err != nil {
		t.Fatalf("identity: %v", err)
	}
	return id
}

// The id is the value of a key without a lease, under the prefix. If somebody deletes the key, the store gets another id.
func TestIdentityIsKept(t *testing.T) {
	t.Parallel()
	for version, start := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			by, d := operator(t, s.Addr), open(t, s.Addr)
			id := identify(t, d)
			r, err := by.Get(timely(t), "", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			kvs := r.Kvs
			if len(kvs) != 1 || string(kvs[0].Key) != "stile/%id" || string(kvs[0].Value) != id || kvs[0].Lease != 0 {
				t.Errorf("etcd has %v; want stile/%%id with %q, and no lease", kvs, id)
			}
			remove(t, by, "stile/%id")
			if next := identify(t, d); next == id {
				t.Errorf("the id is %q again, after its key was deleted", id)
			}
		})
	}
}

// A value that stile did not put is no id. Identity reports it, and leaves it as it is.
func TestIdentityForeign(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	by, d := operator(t, s.Addr), open(t, s.Addr)
	for _, text := range []string{"", "42", "do not touch"} {
		if _, err := by.Put(timely(t), "stile/%id", text); err != nil {
			t.Fatal(err)
		}
		id, err := d.Identity(timely(t))
		if !errors.Is(err, driver.ErrForeign) {
			t.Errorf("identity beside %q = %q, %v; want ErrForeign", text, id, err)
		}
		says(t, err, `key "stile/%id"`)
		if r, err := by.Get(timely(t), "stile/%id"); err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != text {
			t.Errorf("the key is %v, %v; want %q still", r.Kvs, err, text)
		}
	}
}

// The documented rights suffice to read the id, and without them Identity fails.
func TestIdentityRights(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	guarded(t, s)
	by := root(t, s)
	d, err := driver.Open(timely(t), "etcd://locks:hunter2@"+s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	id := identify(t, d.(*Driver))
	if _, err := storeid.Check("the answer", id); err != nil {
		t.Errorf("the id is %q: %v", id, err)
	}
	if _, err := by.RoleRevokePermission(timely(t), "locks", "stile/", clientv3.GetPrefixRangeEnd("stile/")); err != nil {
		t.Fatal(err)
	}
	_, err = d.(*Driver).Identity(timely(t))
	says(t, err, `user "locks"`)
	if !driver.NotApplied(err) || driver.IsUnreachable(err) {
		t.Errorf("identity without the right = %v; want it refused", err)
	}
}
