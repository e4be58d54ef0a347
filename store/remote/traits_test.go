//go:build unix

package remote_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// Trap: replicas may differ in what they know of their store, and a balancer sends each request to another one. The client
// promises what all of them do, and does not ask for the traits after every answer.
func TestTraitsOfReplicas(t *testing.T) {
	store := memory.NewStore()
	var replicas []http.Handler
	for i := range 3 {
		f := &fading{Driver: store.Driver()}
		f.faded.Store(i == 1)
		s, err := server.New(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, s)
	}
	var asked, requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.Traits {
			asked.Add(1)
		}
		replicas[requests.Add(1)%int64(len(replicas))].ServeHTTP(w, r)
	}))
	defer web.Close()
	d := open(t, web.Listener.Addr().String())
	c := drive.Claim("a", "x")
	for ctx := drive.Timely(t); d.Traits().Fencing != driver.NoFencing; {
		if _, err := d.Enter(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	before := asked.Load()
	for range 60 {
		drive.Enter(t, d, c)
		if got := d.Traits(); got.Fencing != driver.NoFencing {
			t.Fatalf("the fencing is %v; want none, as at one replica", got.Fencing)
		}
	}
	d.Close()
	if n := asked.Load() - before; n > 10 {
		t.Errorf("the traits were asked for %d times; want once for each kind of replica", n)
	}
}
