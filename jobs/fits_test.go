package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// named returns a client whose owner and reason have this many bytes each.
func (f *fleet) named(each int, of string) *stile.Client {
	f.Helper()
	text := strings.Repeat(of, each/len(of))
	c, err := stile.New(f.store.Driver(), &stile.Options{LockOptions: stile.LockOptions{Owner: text, Reason: text}})
	if err != nil {
		f.Fatal(err)
	}
	context.AfterFunc(f.ctx, func() { c.Close() })
	return c
}

// The end of a run is recorded whatever its error, owner and reason are, so no machine runs the tick again.
func TestEndFits(t *testing.T) {
	for name, text := range map[string]string{
		"plain": "x", "quotes": `"`, "backslashes": `\`, "zeros": "\x00", "bytes": "\xff", "wide": "\u4e16",
	} {
		for _, missed := range []Missed{Skip, RunOnce, RunAll} {
			for _, owner := range []int{0, 1800} {
				t.Run(fmt.Sprintf("%s, %d, owner of %d", name, missed, owner), func(t *testing.T) {
					inFleet(t, func(f *fleet) {
						fails := func(context.Context) error { return errors.New("no figures" + strings.Repeat(text, 8000)) }
						for range 2 {
							go f.runs(f.ctx, f.job(f.named(owner, "x"), "@every 10m", fails, Options{Missed: missed}))
						}
						f.pass(29 * time.Minute)
						f.became("00:10 failed", "00:20 failed")
						p, err := Last(f.ctx, f.machine(), "nightly")
						if err != nil || !p.Over || p.Outcome != Failed || !strings.HasPrefix(p.Err, "no figures") || p.By.PID == 0 {
							t.Errorf("the record is %.200v, %v", p, err)
						}
					})
				})
			}
		}
	}
}

// unwritable is a store that refuses a job's records while now is set.
type unwritable struct {
	*memory.Driver
	now *atomic.Bool
}

var errUnwritable = errors.New("no right to write")

func (u unwritable) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if u.now.Load() && strings.HasPrefix(c.Name, "nightly/") {
		return driver.Place{}, driver.Refused(errUnwritable)
	}
	return u.Driver.Enter(ctx, c)
}

// A tick whose run has returned in this program does not run here again, even if the store missed its end, and the result
// says so. The next Job of the name knows this too.
func TestEndIsKnown(t *testing.T) {
	for i, missed := range []Missed{RunOnce, RunAll, RunOnce, RunAll} {
		inFleet(t, func(f *fleet) {
			u := unwritable{f.store.Driver(), &atomic.Bool{}}
			c, err := stile.New(u, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var runs []time.Duration
			start := time.Now()
			work := func(ctx context.Context) error {
				u.now.Store(len(runs) == 0)
				runs = append(runs, Tick(ctx).Sub(start))
				return nil
			}
			j := f.job(c, "@every 10m", work, Options{Missed: missed})
			var results []Result
			j.o.Report = func(r Result) { results = append(results, r) }
			ctx, finish := context.WithCancelCause(f.ctx)
			defer finish(nil)
			go f.runs(ctx, j)
			f.pass(19 * time.Minute)
			if len(runs) != 1 || len(results) != 1 || results[0].Outcome != Done || !errors.Is(results[0].Err, errUnwritable) {
				t.Errorf("Missed %d: runs %v, results %v; want one that says that its end is not recorded", missed, runs, results)
			}
			u.now.Store(false)
			if i > 1 {
				finish(ErrFinish)
				synctest.Wait()
				go f.runs(f.ctx, f.job(c, "@every 10m", work, Options{Missed: missed}))
			}
			f.pass(20 * time.Minute)
			last, err := Last(f.ctx, c, "nightly")
			if want := []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute}; !slices.Equal(runs, want) || err != nil || !last.Over {
				t.Errorf("Missed %d: the ticks that ran are %v, and the record %v, %v; want %v", missed, runs, last, err, want)
			}
		})
	}
}

// Any machine writes a record again in full, or with its own owner and reason shortened.
func TestRefreshFits(t *testing.T) {
	for _, of := range []string{"x", `"`, "\u4e16"} {
		inFleet(t, func(f *fleet) {
			each := map[string]int{"x": 1900, `"`: 950, "\u4e16": 1800}[of]
			for range 2 {
				go f.runs(f.ctx, f.job(f.named(each, of), "0 3 * * 1", takes(time.Minute), Options{}))
			}
			f.pass(52 * time.Hour) // from Saturday to Monday, 4 h
			first, err := Last(f.ctx, f.machine(), "nightly")
			if err != nil || first.Outcome != Done {
				t.Fatalf("%q: after the tick: %v, %v", of, first, err)
			}
			for range 5 {
				f.pass(25 * time.Hour)
				p, err := Last(f.ctx, f.machine(), "nightly")
				if err != nil || !p.Tick.Equal(first.Tick) || p.Outcome != Done || p.Ticket != first.Ticket || !strings.HasPrefix(p.By.Owner, of) {
					t.Fatalf("%q: written again: %v, %v; want %v", of, p, err, first)
				}
			}
		})
	}
}

// A record that is ahead of all clocks is reported as trouble, with a remedy. No machine writes it again, so it is forgotten
// in the end.
func TestRecordAhead(t *testing.T) {
	for _, missed := range []Missed{Skip, RunOnce} {
		for _, cured := range []bool{true, false} {
			inFleet(t, func(f *fleet) {
				c := f.machine()
				ahead := f.job(c, "@every 1h", takes(0), Options{})
				tick := time.Now().AddDate(1, 0, 0)
				if _, err := ahead.remember(f.ctx, record{}, ahead.begun(tick, 1)); err != nil {
					t.Fatal(err)
				}
				j := f.job(f.machine(), "@every 1h", takes(0), Options{Missed: missed})
				var mu sync.Mutex // guards the variables below
				outcomes := map[Outcome]int{}
				var said error
				j.o.Report = func(r Result) {
					mu.Lock()
					defer mu.Unlock()
					if outcomes[r.Outcome]++; r.Err != nil {
						said = r.Err
					}
				}
				go f.runs(f.ctx, j)
				f.pass(time.Hour + 2*time.Minute)
				synctest.Wait()
				mu.Lock()
				if outcomes[Trouble] == 0 || said == nil || !strings.Contains(said.Error(), "stile break nightly/last --reason clock --yes") {
					t.Errorf("Missed %d: the outcomes are %v, and the last error %v", missed, outcomes, said)
				}
				mu.Unlock()
				wait := 25 * time.Hour
				if cured {
					wait = time.Hour
					for i, ticket := range must(recall(f.ctx, c, "nightly")).tickets {
						if _, err := c.Break(f.ctx, places("nightly")[i], stile.BreakOptions{Ticket: ticket}); err != nil {
							t.Error(err)
						}
					}
				}
				f.pass(wait)
				synctest.Wait()
				mu.Lock()
				if outcomes[Done] == 0 {
					t.Errorf("Missed %d, cured %v: the outcomes are %v", missed, cured, outcomes)
				}
				mu.Unlock()
			})
		}
	}
}

// A machine whose clock is behind by less than a minute reports the next tick as run elsewhere.
func TestRecordSlightlyAhead(t *testing.T) {
	inFleet(t, func(f *fleet) {
		j := f.job(f.machine(), "@every 10s", takes(0), Options{})
		if _, err := j.remember(f.ctx, record{}, j.begun(time.Now().Add(70*time.Second), 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.recall(f.ctx); err != nil {
			t.Errorf("a minute and a tick ahead: %v", err)
		}
		if _, err := j.remember(f.ctx, must(recall(f.ctx, j.client, "nightly")), j.begun(time.Now().Add(80*time.Second), 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.recall(f.ctx); err == nil {
			t.Error("a minute and two ticks ahead is no trouble")
		}
	})
}

// An answer is kept beside any owner and reason.
func TestAnswerFits(t *testing.T) {
	inFleet(t, func(f *fleet) {
		want := strings.Repeat("x", MaxAnswer)
		call := Once(f.named(1900, "x"), "k", time.Hour)
		if _, err := call.Do(f.ctx, func(context.Context) (string, error) { return want, nil }); err != nil {
			t.Error(err)
		}
		if a, err := call.Answer(f.ctx); err != nil || a.Text != want {
			t.Errorf("%d bytes are kept, %v", len(a.Text), err)
		}
	})
}

// watched is a context that counts the listeners for its end.
type watched struct {
	context.Context
	done      chan struct{}
	listeners *atomic.Int32
}

func (w watched) Done() <-chan struct{} { return w.done }

func (w watched) AfterFunc(func()) func() bool {
	w.listeners.Add(1)
	return func() bool { w.listeners.Add(-1); return true }
}

// Work that panics leaves nothing behind in its caller's context.
func TestOncePanicLeavesNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		ctx := watched{f.ctx, make(chan struct{}), &atomic.Int32{}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Once(f.machine(), "k", time.Hour).Do(ctx, func(context.Context) (string, error) { //nolint:errcheck // it panics
				if ctx.listeners.Load() == 0 {
					t.Error("nobody listens while the work runs")
				}
				panic("no bank")
			})
		}()
		if synctest.Wait(); ctx.listeners.Load() != 0 {
			t.Errorf("%d listen still", ctx.listeners.Load())
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A clock that was a year ahead when the job began, and was corrected since, does not stop the job.
func TestClockIsSetBack(t *testing.T) {
	for _, missed := range []Missed{Skip, RunOnce, RunAll} {
		inFleet(t, func(f *fleet) {
			j := f.job(f.machine(), "@every 1h", takes(0), Options{Missed: missed})
			ahead := time.Now().AddDate(1, 0, 0)
			j.ended = ahead
			go func() {
				if err := j.ticks(f.ctx, ahead); f.ctx.Err() == nil {
					f.Errorf("ticks: %v", err)
				}
			}()
			f.pass(2*time.Hour + time.Minute)
			f.became("01:00 done", "02:00 done")
		})
	}
}

// A run that ends its goroutine counts as dead: it does not block the job.
func TestRunEndsItsGoroutine(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for _, run := range []func(*Job) error{
			func(j *Job) error { return j.Run(f.ctx) }, func(j *Job) error { return j.RunNow(f.ctx) },
		} {
			c := f.machine()
			j := f.job(c, "@every 1h", func(context.Context) error { runtime.Goexit(); return nil }, Options{})
			ended := make(chan bool)
			go func() {
				defer close(ended)
				err := run(j)
				f.Errorf("the run returned %v", err)
			}()
			<-ended
			lease, err := c.Mutex("nightly").TryLock(f.ctx)
			if err != nil {
				f.Fatal(err)
			}
			if err := lease.Unlock(); err != nil {
				f.Error(err)
			}
		}
	})
}
