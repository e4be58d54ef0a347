package consul

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A claim that waits for any key of its folder wakes only when one changes, even after another claim has left.
func TestAFolderIsWaitedForUntilItChanges(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	permit := func(weight int64) *driver.Claim {
		c := claimOn("permits")
		c.Weight, c.Capacity = weight, 4
		return c
	}
	for name, test := range map[string]struct {
		claim func() *driver.Claim
		block func(d *Driver)
	}{
		"permits": {
			func() *driver.Claim { return permit(1) },
			func(d *Driver) { // either may go first
				holds(t, d, permit(2))
				holds(t, d, permit(2))
			},
		},
		"readers": { // behind a reader, during the lock-delay of a writer
			func() *driver.Claim { return shared("readers") },
			func(d *Driver) {
				writer := claimOn("readers")
				writer.Delay = maxDelay
				holds(t, d, writer)
				by.destroy(by.queued("readers", 1)[0])
				waits(t, d, shared("readers"))
			},
		},
	} {
		d := open(t, "consul://"+s.Addr)
		test.block(d)
		c, gone := test.claim(), test.claim()
		waits(t, d, c)
		waits(t, d, gone)
		leave(t, d, gone)
		ctx, cancel := contextOf(t, 500*time.Millisecond)
		returns := 0
		for ; ctx.Err() == nil; returns++ {
			waits(t, d, c)
			_, _ = d.Await(ctx, c)
		}
		cancel()
		if returns > 2 { // once because another left, and once at the end of the time
			t.Errorf("%s: Await returned %d times while nothing changed; want 2 at most", name, returns)
		}
		waits(t, d, c)
		enter(t, d, test.claim()) // before Await begins, which must not miss it
		if _, err := d.Await(timely(t), c); err != nil {
			t.Errorf("%s: after a change, Await = %v; want nil", name, err)
		}
	}
}

// A restored is a store whose index is back at 1 in the answers to blocking queries.
type restored struct{ *http.Transport }

func (s restored) RoundTrip(r *http.Request) (*http.Response, error) {
	if !r.URL.Query().Has("index") {
		return s.Transport.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"X-Consul-Index": {"1"}},
		Body: io.NopCloser(strings.NewReader("[]")), Request: r,
	}, nil
}

// A claim does not wait from an index of the store before a restore.
func TestTheIndexOfAFolderGoesBack(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	way := restored{transport(time.Second, nil)}
	d, err := New(timely(t), &Options{Client: &http.Client{Transport: way}, URL: "http://" + s.Addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(); way.CloseIdleConnections() })
	a, other, b := shared("name"), shared("name"), shared("name")
	a.Capacity, other.Capacity, b.Capacity = 2, 2, 2
	holds(t, d, a)
	holds(t, d, other)
	waits(t, d, b) // for both, and so for the folder
	lc := d.claims.of(b)
	const before = 1 << 40
	lc.folderIndex = before
	waits(t, d, b)
	if lc.wait.index != before {
		t.Fatalf("the claim waits from %d; want %d, where its folder changed last", lc.wait.index, before)
	}
	if _, err := d.Await(timely(t), b); err != nil {
		t.Fatal(err)
	}
	if waits(t, d, b); lc.wait.index >= before {
		t.Errorf("the claim waits from %d; want the index that the store has now", lc.wait.index)
	}
}
