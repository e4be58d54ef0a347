package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// heeded is a store that calls a function before it answers about one name.
type heeded struct {
	*memory.Driver
	left, listed func(name string)
}

func (h heeded) Leave(ctx context.Context, r *driver.Release) error {
	err := h.Driver.Leave(ctx, r)
	h.left(r.Claim.Name)
	return err
}

func (h heeded) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	list, err := h.Driver.List(ctx, q)
	h.listed(q.Name)
	return list, err
}

// loser returns a client that loses a lock once, before the nth answer about another name: to a Leave of that name, or to a
// read.
func (f *fleet) loser(lock, name string, leaves bool, nth int) *stile.Client {
	f.Helper()
	other := f.machine()
	count := func(of string) {
		if of != name {
			return
		}
		if nth--; nth != 0 {
			return
		}
		if _, err := other.Break(f.ctx, lock, stile.BreakOptions{Head: true}); err != nil {
			f.Error(err)
		}
		f.pass(8 * time.Second) // a renewal notices the loss
	}
	h := heeded{f.store.Driver(), func(string) {}, func(string) {}}
	if leaves {
		h.left = count
	} else {
		h.listed = count
	}
	c, err := stile.New(h, &stile.Options{Patience: time.Minute})
	if err != nil {
		f.Fatal(err)
	}
	context.AfterFunc(f.ctx, func() { c.Close() })
	return c
}

// A run whose lease is lost while its tick is recorded or read does not begin. With Missed, the tick is made up for.
func TestLostBeforeTheRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leaves bool
		nth    int // of the answers about the tick, which is read before the lock is taken and under it, and then released
		missed Missed
		want   []string
		runs   int
	}{
		{"read", false, 2, Skip, []string{"00:10 cut off", "00:20 done"}, 1},
		{"read, made up for", false, 3, RunOnce, []string{"00:10 cut off", "00:10 done", "00:20 done"}, 2},
		{"written", true, 1, Skip, []string{"00:10 cut off", "00:20 done"}, 1},
		{"written, made up for", true, 1, RunOnce, []string{"00:10 cut off", "00:10 done", "00:20 done"}, 2},
		{"written, all made up for", true, 1, RunAll, []string{"00:10 cut off", "00:10 done", "00:20 done"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				runs := 0
				work := func(ctx context.Context) error { // it never checks its context itself
					runs++
					if err := stile.FromContext(ctx).Check(); err != nil {
						t.Errorf("the run begins: %v", err)
					}
					return nil
				}
				c := f.loser("nightly", "nightly/last", tt.leaves, tt.nth)
				go f.runs(f.ctx, f.job(c, "@every 10m", work, Options{Missed: tt.missed}))
				f.pass(25 * time.Minute)
				f.became(tt.want...)
				if runs != tt.runs {
					t.Errorf("%d runs, want %d", runs, tt.runs)
				}
			})
		})
	}
}

// A call's run does not begin if its lease is lost while the store is asked for an answer. Others may run it.
func TestOnceLostBeforeTheRun(t *testing.T) {
	inFleet(t, func(f *fleet) {
		call := Once(f.loser("k", "k/done", false, 2), "k", time.Hour)
		a, err := call.Do(f.ctx, func(context.Context) (string, error) {
			t.Error("the run begins")
			return "too late", nil
		})
		if !errors.Is(err, stile.ErrLost) || a != (Answer{}) {
			t.Errorf("got %v, %v; want ErrLost", a, err)
		}
		if a, err := call.Do(f.ctx, answers(0)); err != nil || !a.Here {
			t.Errorf("next: %v, %v", a, err)
		}
	})
}

// A run does not begin if its caller has given up meanwhile.
func TestStoppedBeforeTheRun(t *testing.T) {
	inFleet(t, func(f *fleet) {
		ctx, stop := context.WithCancelCause(f.ctx)
		sigterm, nth := errors.New("terminated"), 0
		c, err := stile.New(heeded{f.store.Driver(), func(string) {}, func(name string) {
			if name == "k/done" {
				if nth++; nth == 2 {
					stop(sigterm)
				}
			}
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := Once(c, "k", time.Hour).Do(ctx, func(context.Context) (string, error) {
			t.Error("the run begins")
			return "", nil
		})
		if !errors.Is(err, sigterm) || a != (Answer{}) {
			t.Errorf("got %v, %v; want what the caller was stopped by", a, err)
		}
	})
}

// A tick's run does not begin if Run has ended meanwhile, and another machine makes up for it.
func TestStoppedBeforeTheTick(t *testing.T) {
	inFleet(t, func(f *fleet) {
		ctx, stop := context.WithCancelCause(f.ctx)
		sigterm := errors.New("terminated")
		c, err := stile.New(heeded{f.store.Driver(), func(name string) {
			if name == "nightly/last" {
				stop(sigterm)
			}
		}, func(string) {}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		work := func(context.Context) error {
			t.Error("the run begins")
			return nil
		}
		done := make(chan error, 1)
		go func() { done <- f.job(c, "@every 10m", work, Options{}).Run(ctx) }()
		f.pass(15 * time.Minute)
		f.became("00:10 stopped")
		if err := <-done; !errors.Is(err, sigterm) {
			t.Errorf("Run = %v; want what it was stopped by", err)
		}
	})
}

// mortal is a client's driver that dies before one of the requests that change a job's record.
type mortal struct {
	*memory.Driver
	left *atomic.Int64 // requests until its death; 0 or less means that it lives on
}

func (m mortal) count(name string) {
	if p := places("nightly"); name == p[0] || name == p[1] {
		if m.left.Add(-1) == 0 {
			m.SetLink(memory.Silent)
		}
	}
}

func (m mortal) Break(ctx context.Context, r *driver.BreakRequest) (driver.ClaimInfo, error) {
	m.count(r.Name)
	return m.Driver.Break(ctx, r)
}

func (m mortal) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	m.count(c.Name)
	return m.Driver.Enter(ctx, c)
}

func (m mortal) Leave(ctx context.Context, r *driver.Release) error {
	m.count(r.Claim.Name)
	return m.Driver.Leave(ctx, r)
}

// A machine that dies before any of the requests that record a tick leaves the tick before it, or its own. Another machine,
// which has seen no tick yet, does not run a tick that is over.
func TestDeathWhileWritten(t *testing.T) {
	for first := 1; first <= 12; first++ { // six requests for the begin of a run, and six for its end
		for second := 0; second <= 6; second++ { // 0 means that it lives on
			t.Run(fmt.Sprint(first, second), func(t *testing.T) { diesWriting(t, first, second) })
		}
	}
}

func diesWriting(t *testing.T, first, second int) {
	inFleet(t, func(f *fleet) {
		runs := map[string]int{}
		work := func(ctx context.Context) error {
			runs[named(Tick(ctx))]++
			return nil
		}
		start := time.Now()
		// dies lets a machine work, and die before its nth request.
		dies := func(does func(ctx context.Context, j *Job, in func(nth int))) {
			left := new(atomic.Int64)
			c, err := stile.New(mortal{f.store.Driver(), left}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(f.ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				does(ctx, f.job(c, "@every 10m", work, Options{Missed: RunAll}), func(nth int) { left.Store(int64(nth)) })
			}()
			f.pass(20*time.Minute + 3*time.Second)
			if left := left.Load(); left > 0 {
				t.Errorf("%d more requests were to come", left)
			}
			stop()
			c.Close()
			<-done
		}
		dies(func(ctx context.Context, j *Job, in func(int)) {
			time.AfterFunc(15*time.Minute, func() { in(first) })
			if err := j.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		})
		f.pass(30 * time.Second) // claims that nobody renews run out
		if second != 0 {
			dies(func(ctx context.Context, j *Job, in func(int)) {
				f.pass(10 * time.Minute) // so that a tick is due
				in(second)
				_, _ = j.turn(ctx, start)
			})
		}
		other := f.job(f.machine(), "@every 10m", work, Options{Missed: RunAll})
		f.pass(30 * time.Second)
		if _, err := other.turn(f.ctx, start); err != nil {
			t.Error(err)
		}
		if runs["00:10"] != 1 || runs["00:20"] < 1 {
			t.Errorf("runs: %v; want one of 00:10, which is over, and then 00:20", runs)
		}
	})
}

// A read of the record finds the tick or the one before at any moment of a write, even by a machine that has lost the job's
// lock and does not know.
func TestReadWhileWritten(t *testing.T) {
	inFleet(t, func(f *fleet) {
		writes := f.job(f.machine(), "@every 10m", takes(0), Options{})
		at := places("nightly")
		tick := time.Now()
		was, err := writes.remember(f.ctx, record{}, writes.begun(tick, 1))
		if err != nil {
			t.Fatal(err)
		}
		leave := func(i int) {
			if _, err := writes.client.Break(f.ctx, at[i], stile.BreakOptions{Ticket: was.tickets[i]}); err != nil {
				t.Error(err)
			}
		}
		leave(0)
		goOn := sync.OnceFunc(func() {
			if _, err := writes.replace(f.ctx, at[0], 0, was.memo); err != nil {
				t.Error(err)
			}
			leave(1)
		})
		c, err := stile.New(heeded{f.store.Driver(), func(string) {}, func(name string) {
			if name == at[0] {
				goOn()
			}
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if r, err := recall(f.ctx, c, "nightly"); err != nil || !r.Tick.Equal(tick) || r.tickets[0] == 0 {
			t.Errorf("read: %+v, %v; want the tick at %v", r, err, tick)
		}
	})
}
