//go:build unix

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/remote"
)

// queued makes calls while the driver is jammed, one after the other, and returns when all wait. The channel has their errors.
func queued(t *testing.T, d driver.Driver, calls ...func() error) <-chan error {
	t.Helper()
	remote.SetPatience(d, time.Hour)
	remote.Jam(d)
	errs := make(chan error, len(calls))
	for i, call := range calls {
		go func() { errs <- call() }()
		until(t, "the call waits", func() bool { return remote.Queued(d) == i+1 })
	}
	return errs
}

// A batch is no larger than a request may be.
func TestLargeCalls(t *testing.T) {
	t.Parallel()
	j := newJam()
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	var calls []func() error
	for i := range 100 {
		c := drive.Claim(fmt.Sprint("a/", i), "x")
		c.Owner, c.Record = strings.Repeat("<", api.MaxText), strings.Repeat("r", driver.MaxRecord) // JSON takes six bytes for a <
		calls = append(calls, entering(d, t.Context(), c))
	}
	errs := queued(t, d, calls...)
	remote.Unjam(d)
	for range calls {
		if err := <-errs; err != nil {
			t.Errorf("a call = %v; want its answer", err)
		}
	}
	if n := j.items.Load(); n != 100 || j.batches.Load() != 2 {
		t.Errorf("%d calls went in %d batches; want 100 in two", n, j.batches.Load())
	}
}

// Calls that are meant for two stores do not share a request, which names one.
func TestQueueIsForTwoStores(t *testing.T) {
	t.Parallel()
	j := newJam()
	close(j.over)
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	errs := queued(t, d, entering(d, t.Context(), drive.Claim("a", "x")), func() error {
		remote.SetStore(d, "another") // so its service refuses this call, which then goes to the right store
		return entering(d, t.Context(), drive.Claim("b", "x"))()
	})
	remote.Unjam(d)
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("a call = %v; want its answer", err)
		}
	}
	if n := j.batches.Load(); n != 0 {
		t.Errorf("%d batches; want none", n)
	}
}

// A gated store answers Enters of some names when their gates open.
type gated struct {
	*memory.Driver
	store *memory.Store
	came  chan string
	gates map[string]chan struct{}
}

func (g *gated) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if gate := g.gates[c.Name]; gate != nil {
		g.came <- c.Name
		select {
		case <-gate:
		case <-ctx.Done():
			return driver.Place{}, driver.Ended(ctx, true)
		}
	}
	return g.Driver.Enter(ctx, c)
}

func newGated(names ...string) *gated {
	store := memory.NewStore()
	g := &gated{store.Driver(), store, make(chan string, 10), map[string]chan struct{}{}}
	for _, name := range names {
		g.gates[name] = make(chan struct{})
	}
	return g
}

// The end of an earlier request sends nothing that waits for the last one.
func TestEarlierRequestEnds(t *testing.T) {
	t.Parallel()
	g := newGated("first", "last")
	addr, _ := service(t, g, nobody)
	d := open(t, addr)
	remote.SetPatience(d, 0)
	begun := func(name string) <-chan error {
		got := make(chan error, 1)
		go func() { got <- entering(d, t.Context(), drive.Claim(name, "x"))() }()
		return got
	}
	first := begun("first")
	<-g.came
	last := begun("last")
	<-g.came
	remote.SetPatience(d, time.Hour)
	waits := begun("a")
	until(t, "in the queue", func() bool { return remote.Queued(d) == 1 })
	close(g.gates["first"])
	if err := <-first; err != nil || remote.Queued(d) != 1 {
		t.Errorf("the first call = %v, and %d wait; want its answer, and one", err, remote.Queued(d))
	}
	close(g.gates["last"])
	for _, got := range []<-chan error{last, waits} {
		if err := <-got; err != nil {
			t.Errorf("a call = %v; want its answer", err)
		}
	}
}

// Calls that wait while a service without batches refuses one are sent alone too.
func TestQueueBehindRefusedBatch(t *testing.T) {
	t.Parallel()
	j, refuse := newJam(), make(chan struct{})
	close(j.over)
	j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-refuse:
			r.URL.Path = "/v1/unknown"
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	p := begin(t, d, drive.Claim("a", "x"), drive.Claim("b", "x"))
	until(t, "the batch is under way", func() bool { return j.batches.Load() == 1 })
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			if err := entering(d, t.Context(), drive.Claim(fmt.Sprint("c/", i), "x"))(); err != nil {
				t.Errorf("a call that waited = %v; want its answer", err)
			}
		})
	}
	until(t, "in the queue", func() bool { return remote.Queued(d) == 2 })
	close(refuse)
	all.Wait()
	for _, got := range []chan error{p.first, p.second} {
		if err := <-got; err != nil {
			t.Errorf("a call of the batch = %v; want its answer", err)
		}
	}
	if n := j.batches.Load(); n != 1 {
		t.Errorf("%d batches; want one", n)
	}
}

// A batch leaves its connection to the next.
func TestBatchKeepsItsConnection(t *testing.T) {
	t.Parallel()
	j, end := newJam(), make(chan struct{}, 5)
	j.batch = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		select { // the end of the answer comes after its lines
		case <-end:
		case <-r.Context().Done():
		}
	}
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	var dials atomic.Int64
	remote.SetDial(d, func(string) { dials.Add(1) })
	leave := func(name string) func() error {
		return func() error { return d.Leave(t.Context(), &driver.Release{Claim: drive.Claim(name, "x")}) }
	}
	for range cap(end) {
		errs := queued(t, d, leave("a"), leave("b"))
		remote.Unjam(d)
		for range 2 {
			if err := <-errs; !errors.Is(err, driver.ErrGone) {
				t.Errorf("a release of nothing = %v; want ErrGone", err)
			}
		}
		end <- struct{}{}
		until(t, "over", func() bool { return remote.Idle(d) })
	}
	if n := dials.Load(); n == int64(cap(end)) { // a machine that stands still may cost one
		t.Errorf("%d batches took as many connections; want fewer", n)
	}
}
