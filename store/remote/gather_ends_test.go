//go:build unix

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/remote"
)

// givesUp lets the first caller of a pair give up after a silence that counts.
func (p *pair) givesUp(t *testing.T) {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), 2*remote.Slow)
	t.Cleanup(cancel)
	context.AfterFunc(patience, p.giveUp)
}

// A caller that gives up a silent host ends the request of the others only if they can go to another host, and they learn that the
// host was silent.
func TestSilenceEndsBatch(t *testing.T) {
	t.Parallel()
	for hosts := 1; hosts <= 2; hosts++ {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			t.Parallel()
			g := newGated("a", "b", "c")
			first, _ := service(t, g, nobody)
			second, _ := service(t, g.store.Driver(), nobody)
			d := open(t, []string{first, second}[:hosts]...)
			p := begin(t, d, drive.Claim("a", "x"), drive.Claim("b", "x"))
			<-g.came
			<-g.came
			p.givesUp(t)
			judge(t, "a call at a silent host", <-p.first, driver.OutcomeUnknown, false)
			if hosts == 1 {
				close(g.gates["b"])
				if err := <-p.second; err != nil {
					t.Errorf("the other call = %v; want its answer", err)
				}
				return
			}
			judge(t, "the other call", <-p.second, driver.OutcomeUnknown, true)
			drive.Holds(t, d, drive.Claim("c", "x")) // at the second host, since the gate of the first is closed
		})
	}
}

// If a host accepts no connection, and a caller gives up, the others go to another host at once: nothing was sent.
func TestUnsentBatchGoesElsewhere(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	first, _ := service(t, store.Driver(), nobody)
	second, _ := service(t, store.Driver(), nobody)
	d := open(t, first, second)
	dials, over := make(chan struct{}, 10), make(chan struct{})
	defer close(over)
	remote.SetDial(d, func(addr string) {
		if addr == first {
			dials <- struct{}{}
			<-over
		}
	})
	p := begin(t, d, drive.Claim("a", "x"), drive.Claim("b", "x"))
	<-dials
	p.givesUp(t)
	judge(t, "a call that may be sent", <-p.first, driver.OutcomeUnknown, false)
	select {
	case err := <-p.second:
		if err != nil {
			t.Errorf("the other call = %v; want its answer", err)
		}
	case <-drive.Timely(t).Done():
		t.Error("the other call waits for the host without a connection")
	}
}

// If all callers of a batch give it up, the next calls share a request as before.
func TestAllGiveUp(t *testing.T) {
	t.Parallel()
	j, g := newJam(), newGated("a", "b")
	addr, _ := service(t, g, j.stand)
	d := open(t, addr)
	p := begin(t, d, drive.Claim("a", "x"), drive.Claim("b", "x"))
	<-g.came
	<-g.came
	p.giveUp()
	p.secondGivesUp()
	judge(t, "the first call", <-p.first, driver.OutcomeUnknown, false)
	judge(t, "the second call", <-p.second, driver.OutcomeUnknown, false)
	until(t, "over", func() bool { return remote.Idle(d) })
	p = begin(t, d, drive.Claim("c", "x"), drive.Claim("d", "x"))
	for _, got := range []chan error{p.first, p.second} {
		if err := <-got; err != nil {
			t.Errorf("a call after that = %v; want its answer", err)
		}
	}
	if n := j.batches.Load(); n != 2 {
		t.Errorf("%d batches; want two", n)
	}
}

// An ending context has ended, and its channel does not show that yet.
type ending struct {
	context.Context
	ended atomic.Bool
}

func (e *ending) Err() error {
	if e.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A caller whose context ends just as its batch fails gets the cause of its context.
func TestContextEndsAsBatchFails(t *testing.T) {
	t.Parallel()
	j, ctx := newJam(), &ending{Context: context.Background()}
	j.batch = func(http.ResponseWriter, *http.Request, http.Handler) {
		ctx.ended.Store(true)
		panic(http.ErrAbortHandler)
	}
	addr, _ := service(t, memory.NewStore().Driver(), j.stand)
	d := open(t, addr)
	leave := func(ctx context.Context, got chan<- error) func() error {
		return func() error {
			got <- d.Leave(ctx, &driver.Release{Claim: drive.Claim("a", "x")})
			return nil
		}
	}
	ended, other := make(chan error, 1), make(chan error, 1)
	queued(t, d, leave(ctx, ended), leave(t.Context(), other))
	remote.Unjam(d)
	err := <-ended
	judge(t, "a call whose context has ended", err, driver.OutcomeUnknown, false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended = %v; want its cause", err)
	}
	judge(t, "the other call", <-other, driver.OutcomeUnknown, true)
}

// Calls that wait when their client is closed end, and share no request.
func TestQueueOfClosedClient(t *testing.T) {
	t.Parallel()
	addr, _ := service(t, memory.NewStore().Driver(), nobody)
	d := open(t, addr)
	errs := queued(t, d, entering(d, t.Context(), drive.Claim("a", "x")), entering(d, t.Context(), drive.Claim("b", "x")))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	remote.Unjam(d)
	for range 2 {
		if err := <-errs; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("a call of a closed client = %v; want ErrClosed", err)
		}
	}
}
