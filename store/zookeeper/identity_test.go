package zookeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

func identify(t *testing.T, d driver.Driver) string {
	t.Helper()
	var id string
	if err := reached(t, func() (err error) {
		id, err = d.(driver.Identifier).Identity(t.Context())
		return err
	}); err != nil {
		t.Fatalf("identity: %v", err)
	}
	return id
}

// The id is a node under the prefix that stays, in every layout. Once somebody has removed it, another one is drawn.
func TestIdentityIsKept(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	a := newAdmin(t, s.Addr)
	a.create("/app", "/app/locks")
	for _, test := range []struct{ rest, path string }{
		{"", "/stile/%id"},
		{"?layout=rw&prefix=deep/rw/", "/deep/rw/%id"},
		{"?layout=latch&prefix=latch-", "/latch-%id"},
		{"?layout=semaphore&prefix=", "/%id"},
		{"/app/locks?prefix=", "/app/locks/%id"},
		{"/app/locks?prefix=x/", "/app/locks/x/%id"},
	} {
		d := open(t, "zk://"+s.Addr+test.rest)
		id := identify(t, d)
		get := wire.Get(test.path, nil)
		if a.do(get); get.Err != nil || get.Data != id || get.Stat.Owner != 0 {
			t.Errorf("%s: the node %s is %q, of session %x (%v); want %q, of none",
				test.rest, test.path, get.Data, get.Stat.Owner, get.Err, id)
		}
		list, err := d.(driver.Lister).List(t.Context(), &driver.Query{})
		if err != nil || len(list) != 0 {
			t.Errorf("%s: list = %+v, %v; want no names", test.rest, list, err)
		}
		a.remove(test.path)
		if next := identify(t, d); next == id {
			t.Errorf("%s: the id is %q again, after its node was removed", test.rest, id)
		}
		if remarks := strings.Join(d.Traits().Remarks(), " "); strings.Contains(remarks, "%id") {
			t.Errorf("%s: the notes take the id for something strange: %q", test.rest, remarks)
		}
	}
}

// An id that stile did not set is an error, and its node stays unchanged.
func TestIdentityForeign(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	a.create("/stile", "/stile/%id")
	for _, text := range []string{"", "42", "do not touch"} {
		a.do(wire.Set("/stile/%id", text))
		id, err := d.(driver.Identifier).Identity(t.Context())
		if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), "/stile/%id") {
			t.Errorf("identity beside %q = %q, %v; want ErrForeign, with the node", text, id, err)
		}
		if get := wire.Get("/stile/%id", nil); true {
			if a.do(get); get.Data != text {
				t.Errorf("the node has %q; want %q still", get.Data, text)
			}
		}
	}
}

// With acl=creator the documented permissions suffice, and another user does not get the id.
func TestIdentityACL(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	joe := open(t, "zk://joe:"+password+"@"+s.Addr)
	identify(t, joe)
	_, err := open(t, "zk://ann:"+password+"@"+s.Addr).(driver.Identifier).Identity(t.Context())
	refuses(t, "the id of another user's store", err, true, false, `does not let user "ann" do this at /stile/%id`)
}

// A late request for the node, whose client gave up waiting, does nothing once another client has made the node.
func TestIdentityLate(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	p, url := behind(t, s)
	d, other := open(t, url), open(t, "zk://"+s.Addr)
	newAdmin(t, s.Addr).create("/stile")
	p.Hold(1) // the answer that there is no id passes; the request for its node is held up
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := d.(driver.Identifier).Identity(ctx)
		ended <- err
	}()
	servertest.Until(t, "a request is held up", func() bool { return p.Held() > 0 })
	cancel()
	if err := <-ended; err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused {
		t.Errorf("identity without an answer = %v; want an unknown outcome", err)
	}
	id := identify(t, other)
	p.Pass()
	p.Arrive()
	if got := identify(t, d); got != id {
		t.Errorf("the id is %q; want %q, as another has it", got, id)
	}
	if again := identify(t, other); again != id {
		t.Errorf("the id is %q, and was %q", again, id)
	}
}
