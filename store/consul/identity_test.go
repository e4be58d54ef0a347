package consul

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func identify(t testing.TB, d *Driver) string {
	t.Helper()
	id, err := d.Identity(timely(t))
	if err != nil {
		t.Fatalf("identity: %v", err)
	}
	return id
}

// The id is a key without a session under the prefix. If somebody deletes it, the next call draws a new id.
func TestIdentityIsKept(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	for _, test := range []struct{ parameters, key string }{{"", "stile/%id"}, {"?prefix=", "%id"}, {"?prefix=a-", "a-%id"}} {
		by, d := operator{t, "http://" + s.Addr}, open(t, "consul://"+s.Addr+test.parameters)
		id := identify(t, d)
		list := by.under(test.key)
		if len(list) != 1 || list[0].Key != test.key || string(list[0].Value) != id || list[0].Session != "" {
			t.Errorf("consul has %+v; want %s with %q, and no session", list, test.key, id)
		}
		by.must(http.MethodDelete, "kv/"+escape(test.key), "")
		if next := identify(t, d); next == id {
			t.Errorf("the id is %q again, after its key was deleted", id)
		}
	}
}

// Reading an existing id takes one request.
func TestIdentityRequests(t *testing.T) {
	t.Parallel()
	d, n := counted(t, servertest.Consul(t, nil).Addr)
	identify(t, d)
	n.take()
	identify(t, d)
	if made := n.take(); len(made) != 1 {
		t.Errorf("requests: %q; want one", made)
	}
}

// A value that stile did not write is not taken for an id, and stays unchanged.
func TestIdentityForeign(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by, d := operator{t, "http://" + s.Addr}, open(t, "consul://"+s.Addr)
	for _, text := range []string{"", "42", "do not touch"} {
		by.must(http.MethodPut, "kv/"+escape("stile/%id"), text)
		id, err := d.Identity(timely(t))
		if !errors.Is(err, driver.ErrForeign) {
			t.Errorf("identity beside %q = %q, %v; want ErrForeign", text, id, err)
		}
		says(t, err, `key "stile/%id"`)
		if list := by.under("stile/%id"); len(list) != 1 || string(list[0].Value) != text {
			t.Errorf("the key is %+v; want %q still", list, text)
		}
	}
}

// A request to make the key that arrives late does nothing once another client has made the key.
func TestIdentityLate(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	p := servertest.NewProxy(t, s.Addr)
	d, other := open(t, "consul://"+p.Addr), open(t, "consul://"+s.Addr)
	p.Hold(1) // there is no id, and the answer to the request to make one is lost
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := d.Identity(ctx)
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
	servertest.Until(t, "the other client's id is read", func() bool {
		got, err := d.Identity(timely(t))
		return err == nil && got == id
	})
	if again := identify(t, other); again != id {
		t.Errorf("the id is %q, and was %q", again, id)
	}
}
