//go:build unix

package remote_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
)

// told are the ids of the claims that a client was alerted of.
type told struct {
	mu  sync.Mutex
	ids map[string]bool
}

func listensTo(d driver.Driver) *told {
	w := &told{ids: map[string]bool{}}
	d.(driver.Alerter).Alert(func(ids ...string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range ids {
			w.ids[id] = true
		}
	})
	return w
}

func (w *told) of(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ids[id]
}

// counted counts the requests for alerts, and how many of them are open.
func counted(now, all *atomic.Int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == api.Alerts {
				all.Add(1)
				now.Add(1)
				defer now.Add(-1)
			}
			next.ServeHTTP(w, r)
		})
	}
}

func broken(t *testing.T, d driver.Driver, name string) {
	t.Helper()
	if _, err := d.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// Many claims that come one after the other need few requests, and the client hears of the break of each. After they have
// left, no request is open.
func TestAlertsOfMany(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	direct := store.Driver()
	var now, all atomic.Int64
	addr, _ := service(t, store.Driver(), counted(&now, &all))
	d := open(t, addr)
	heard := listensTo(d)
	var claims []*driver.Claim
	const rounds, each = 12, 60 // more than the limit of one request
	for round := range rounds {
		before := all.Load()
		for i := range each {
			c := drive.Claim(fmt.Sprint("name ", round, " ", i), fmt.Sprint("x", round, "-", i))
			drive.Holds(t, d, c)
			claims = append(claims, c)
		}
		servertest.Until(t, "the service is asked for alerts", func() bool { return all.Load() > before })
	}
	servertest.Until(t, "few requests for alerts are left", func() bool { return now.Load() <= 6 })
	for i := 0; i < len(claims); i += 7 {
		broken(t, direct, claims[i].Name)
		servertest.Until(t, "the client hears of the break", func() bool { return heard.of(claims[i].ID) })
	}
	for i, c := range claims {
		if i%7 == 0 {
			_ = drive.Renew(t, d, c) // it is gone
		} else {
			drive.Leave(t, d, c)
		}
	}
	servertest.Until(t, "no request for alerts is left", func() bool { return now.Load() == 0 })
}

// A service that ends takes no alert with it: its clients ask the next one.
func TestAlertsGoOn(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	direct := store.Driver()
	var first, second, all atomic.Int64
	one, ending := service(t, store.Driver(), counted(&first, &all))
	two, _ := service(t, store.Driver(), counted(&second, &all))
	d := open(t, one, two)
	heard := listensTo(d)
	c := drive.Claim("a", "x")
	drive.Holds(t, d, c)
	servertest.Until(t, "the first service is asked for alerts", func() bool { return first.Load() == 1 })
	ending.EndWaits()
	servertest.Until(t, "the second service is asked for alerts", func() bool { return first.Load() == 0 && second.Load() == 1 })
	broken(t, direct, "a")
	servertest.Until(t, "the client hears of the break", func() bool { return heard.of("x") })
}

// If no service is left, the claims are in danger. The client hears that and asks at once, long before it loses them.
func TestDangerBeforeTheLoss(t *testing.T) {
	t.Parallel()
	var now, all atomic.Int64
	addr, _ := service(t, memory.New(), counted(&now, &all))
	p := servertest.NewProxy(t, addr)
	d := open(t, p.Addr)
	heard := listensTo(d)
	c := drive.Claim("a", "x")
	c.TTL, c.Wait = time.Hour, time.Hour
	drive.Holds(t, d, c)
	servertest.Until(t, "the service is asked for alerts", func() bool { return now.Load() == 1 })
	if heard.of("x") {
		t.Error("the client hears of danger while there is none")
	}
	p.Cut()
	servertest.Until(t, "the client hears of the danger", func() bool { return heard.of("x") })
}
