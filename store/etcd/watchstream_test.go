package etcd

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// The number of a client's goroutines does not grow with the number of names that it holds. The test is not parallel, since
// it counts all goroutines of the process.
func TestGoroutinesOfHeldNames(t *testing.T) { //nolint:paralleltest // see above
	s := servertest.Etcd(t)
	d := open(t, s.Addr)
	by := operator(t, s.Addr)
	alerts := make(chan string, 100)
	d.Alert(func(ids ...string) {
		for _, id := range ids {
			alerts <- id
		}
	})
	var claims []*driver.Claim
	hold := func() {
		c := claimOn(fmt.Sprintf("name-%d", len(claims)))
		claims = append(claims, c)
		enter(t, d, c)
	}
	watched := func() {
		servertest.Until(t, "all that are held are watched over", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			s := d.watches.stream
			return len(d.watches.open) == len(claims) && s != nil && len(s.watches) == len(claims)
		})
	}
	heard := func(c *driver.Claim) { // the claim's watch, and all its goroutines, have begun
		t.Helper()
		remove(t, by, d.claims.of(c.ID).key)
		if id := <-alerts; id != c.ID {
			t.Fatalf("alert of %s; want %s", id, c.ID)
		}
	}
	hold()
	hold()
	watched()
	heard(claims[1])
	before := runtime.NumGoroutine()
	for range 40 {
		hold()
	}
	watched()
	heard(claims[len(claims)-1])
	if more := runtime.NumGoroutine() - before; more > 10 {
		t.Errorf("40 held names more take %d goroutines more; want none", more)
	}
}

// A stream hands out etcd's events. If etcd ends a watch since its revision was compacted, the other watches go on. Any
// other reason ends the stream, and all its claims are renewed.
func TestWatchStreamTakes(t *testing.T) {
	t.Parallel()
	deleted := []*mvccpb.Event{{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("a/1"), ModRevision: 11}}}
	for _, test := range []struct {
		name  string
		takes *pb.WatchResponse
		fails bool
		told  []string
	}{
		{"a deletion", &pb.WatchResponse{WatchId: 1, Events: deleted}, false, []string{"a"}},
		{"of a watch that was ended", &pb.WatchResponse{WatchId: 3, Events: deleted}, false, nil},
		{"that a watch stands", &pb.WatchResponse{WatchId: 1, Created: true}, false, nil},
		{"that a watch was ended as asked", &pb.WatchResponse{WatchId: 3, Canceled: true}, false, nil},
		{"a compaction", &pb.WatchResponse{WatchId: 2, Canceled: true, CompactRevision: 20}, false, []string{"b"}},
		{"a refusal", &pb.WatchResponse{WatchId: 2, Canceled: true, CancelReason: "no"}, true, []string{"a", "b"}},
		{"a refusal of no watch", &pb.WatchResponse{WatchId: -1, Created: true, Canceled: true}, true, []string{"a", "b"}},
	} {
		d := newDriver("")
		defer d.life.End()
		var told []string
		d.Alert(func(ids ...string) { told = append(told, ids...) })
		s := &watchStream{ws: d.watches, stop: func() {}, kick: make(chan struct{}, 1), watches: map[int64]*queueWatch{}}
		d.watches.stream = s
		for i, name := range []string{"a", "b"} {
			c := &driver.Claim{Name: name, ID: name, Weight: driver.All, Capacity: driver.All}
			k := d.claims.remember(newLocalClaim(c, name+"/1", &lease{id: int64(i)}))
			k.state, k.seen = claimHolding, 10
			d.mu.Lock()
			d.watches.joinLocked(k)
			d.mu.Unlock()
		}
		err := s.take(test.takes)
		if err != nil {
			s.ended()
		}
		slices.Sort(told)
		if (err != nil) != test.fails || !slices.Equal(told, test.told) {
			t.Errorf("%s: error %v, told %q; want error %v, told %q", test.name, err, told, test.fails, test.told)
		}
		d.mu.Lock()
		for _, id := range []string{"a", "b"} {
			k := d.claims.known[id]
			lost := slices.Contains(test.told, id) && test.name != "a deletion"
			if (k.by == nil) != lost || (k.knows == deaf) != lost {
				t.Errorf("%s: claim %s is heard by %v, and knows %v; want neither: %v",
					test.name, id, k.by != nil, k.knows, lost)
			}
		}
		if test.fails && (d.watches.stream != nil || len(d.watches.open) > 0) {
			t.Errorf("%s: the stream goes on", test.name)
		}
		d.mu.Unlock()
	}
}
