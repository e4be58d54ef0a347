package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// A fleet is machines with the same jobs, in virtual time, which begins at midnight.
type fleet struct {
	*testing.T
	store *memory.Store
	ctx   context.Context

	mu    sync.Mutex
	lines []line // reported ticks, without those that others ran
	last  int64  // last token
}

// A line reports a tick, with the token of its run or, without a run, of the last reported run.
type line struct {
	token int64
	text  string
}

func inFleet(t *testing.T, f func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		fl := &fleet{T: t, store: memory.NewStore(), ctx: ctx}
		f(fl)
		cancel()
		synctest.Wait()
	})
}

// machine returns a new client, which ends with the test.
func (f *fleet) machine() *stile.Client {
	f.Helper()
	c, err := stile.New(f.store.Driver(), nil)
	if err != nil {
		f.Fatal(err)
	}
	context.AfterFunc(f.ctx, func() { c.Close() })
	return c
}

// job returns a job of a machine, and records its results.
func (f *fleet) job(c *stile.Client, schedule string, work func(context.Context) error, o Options) *Job {
	f.Helper()
	o.Report = func(r Result) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Outcome == Elsewhere {
			return
		}
		if r.Ticket != 0 && slices.ContainsFunc(f.lines, func(l line) bool { return l.token == r.Ticket }) {
			f.Errorf("two runs have token %d", r.Ticket)
		}
		f.last = max(f.last, r.Ticket)
		f.lines = append(f.lines, line{cmp.Or(r.Ticket, f.last), r.Tick.UTC().Format("15:04") + " " + string(r.Outcome)})
	}
	j, err := New(c, "nightly", schedule, work, &o)
	if err != nil {
		f.Fatal(err)
	}
	return j
}

// pass lets time pass.
func (f *fleet) pass(d time.Duration) { <-time.After(d) }

// runs runs a job until the context ends, or its client is closed.
func (f *fleet) runs(ctx context.Context, j *Job) {
	if err := j.Run(ctx); ctx.Err() == nil && !errors.Is(err, stile.ErrClosed) {
		f.Errorf("Run: %v", err)
	}
}

// became fails unless these are the reports of ticks, in the order of their tokens: two machines may report in any order.
func (f *fleet) became(want ...string) {
	f.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.lines, func(a, b line) int { return cmp.Compare(a.token, b.token) })
	var got []string
	for _, l := range f.lines {
		got = append(got, l.text)
	}
	if !slices.Equal(got, want) {
		f.Errorf("got  %q\nwant %q", got, want)
	}
}

func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func TestEachTickRunsOnce(t *testing.T) {
	for _, missed := range []Missed{Skip, RunOnce, RunAll} {
		for _, long := range []time.Duration{0, time.Second, 9 * time.Minute} {
			t.Run(fmt.Sprintf("%d %v", missed, long), func(t *testing.T) {
				inFleet(t, func(f *fleet) {
					for range 3 {
						go f.runs(f.ctx, f.job(f.machine(), "@every 10m", takes(long), Options{Missed: missed, Jitter: 5 * time.Second}))
					}
					f.pass(39*time.Minute + 50*time.Second)
					f.became("00:10 done", "00:20 done", "00:30 done")
				})
			})
		}
	}
}

// Machines are replaced one by one, and the new ones have another schedule. Each tick of either schedule has one run, even a
// tick of both. After the last old machine only the new schedule counts.
func TestScheduleChanges(t *testing.T) {
	for _, tt := range []struct {
		name, schedule string
		want           []string
	}{
		{"other ticks", "@every 15m", []string{"00:40 done", "00:45 done", "00:50 done", "01:00 done", "01:15 done"}},
		{"the same ticks", "*/10 * * * *", []string{"00:40 done", "00:50 done", "01:00 done", "01:10 done"}},
		{"fewer ticks", "@every 1h", []string{"00:40 done", "00:50 done", "01:00 done"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, missed := range []Missed{Skip, RunOnce, RunAll} {
				inFleet(t, func(f *fleet) {
					start := func(schedule string) (stop func()) {
						ctx, stop := context.WithCancel(f.ctx)
						go f.runs(ctx, f.job(f.machine(), schedule, takes(time.Second), Options{Missed: missed, AtLeast: 10 * time.Second}))
						return stop
					}
					one, two := start("@every 10m"), start("@every 10m")
					f.pass(35 * time.Minute)
					one()
					one = start(tt.schedule)
					f.pass(20 * time.Minute)
					two()
					two = start(tt.schedule)
					f.pass(23 * time.Minute) // until 1:18
					f.became(append([]string{"00:10 done", "00:20 done", "00:30 done"}, tt.want...)...)
					one()
					two()
				})
			}
		})
	}
}

// Ticks that are missed because a run takes 25 minutes are skipped, made up for once, or made up for in full.
func TestMissed(t *testing.T) {
	for _, tt := range []struct {
		missed Missed
		want   []string
	}{
		{Skip, []string{"00:10 done", "00:40 done", "00:50 done"}},
		{RunOnce, []string{"00:10 done", "00:30 done", "00:40 done", "00:50 done"}},
		{RunAll, []string{"00:10 done", "00:20 done", "00:30 done", "00:40 done", "00:50 done"}},
	} {
		inFleet(t, func(f *fleet) {
			var runs atomic.Int64
			work := func(ctx context.Context) error {
				if runs.Add(1) == 1 {
					return takes(25 * time.Minute)(ctx)
				}
				return nil
			}
			for range 2 {
				go f.runs(f.ctx, f.job(f.machine(), "@every 10m", work, Options{Missed: tt.missed}))
			}
			f.pass(55 * time.Minute)
			// The machine that ran finds the ticks that it missed, and reports them.
			f.mu.Lock()
			f.lines = slices.DeleteFunc(f.lines, func(l line) bool { return strings.HasSuffix(l.text, string(Late)) })
			f.mu.Unlock()
			f.became(tt.want...)
		})
	}
}

// The next machine makes up for the tick of a machine that died in a run, at once or at the next tick, with a higher token.
func TestDeath(t *testing.T) {
	for _, tt := range []struct {
		missed Missed
		want   []string
	}{
		{Skip, []string{"00:10 cut off", "00:20 done"}},
		{RunOnce, []string{"00:10 cut off", "00:10 done", "00:20 done"}},
		{RunAll, []string{"00:10 cut off", "00:10 done", "00:20 done"}},
	} {
		inFleet(t, func(f *fleet) {
			dies := f.machine()
			go f.runs(f.ctx, f.job(dies, "@every 10m", takes(time.Hour), Options{Missed: tt.missed}))
			f.pass(10*time.Minute + time.Second)
			go f.runs(f.ctx, f.job(f.machine(), "@every 10m", takes(0), Options{Missed: tt.missed}))
			f.pass(time.Minute)
			dies.Close() // its claim stays until it runs out
			f.pass(9 * time.Minute)
			f.became(tt.want...)
		})
	}
}

// A machine that was down finds the missed ticks, as long as the store remembers.
func TestDown(t *testing.T) {
	inFleet(t, func(f *fleet) {
		ctx, stop := context.WithCancel(f.ctx)
		j := f.job(f.machine(), "@every 10m", takes(0), Options{Missed: RunAll})
		go f.runs(ctx, j)
		f.pass(11 * time.Minute)
		stop()
		f.pass(30 * time.Minute)
		go f.runs(f.ctx, j)
		f.pass(time.Minute)
		f.became("00:10 done", "00:20 done", "00:30 done", "00:40 done")
	})
}

func TestOutcomes(t *testing.T) {
	inFleet(t, func(f *fleet) {
		runs := 0
		work := func(ctx context.Context) error {
			runs++
			switch runs {
			case 1:
				return errors.New("no figures")
			case 2:
				panic("no figures")
			case 3:
				<-ctx.Done()
				return ctx.Err()
			}
			if end, ok := ctx.Deadline(); stile.Token(ctx) == 0 || !ok || time.Until(end) > 2*time.Minute {
				t.Errorf("the context has token %d and deadline %v", stile.Token(ctx), end)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, stop := context.WithCancelCause(f.ctx)
		ended := make(chan error)
		j := f.job(f.machine(), "@every 10m", work, Options{MaxHold: 2 * time.Minute})
		go func() { ended <- j.Run(ctx) }()
		f.pass(41 * time.Minute)
		if err := f.job(j.client, "@every 5m", work, Options{}).Run(ctx); err == nil ||
			err.Error() != `jobs: job "nightly" runs in this program already, with schedule "@every 10m"; this one has "@every 5m"` {
			t.Errorf("a second schedule: %v", err)
		}
		sigterm := errors.New("terminated")
		stop(sigterm)
		if err := <-ended; !errors.Is(err, sigterm) {
			t.Errorf("Run: got %v, want %v", err, sigterm)
		}
		f.became("00:10 failed", "00:20 panicked", "00:30 cut off", "00:40 stopped")
	})
}

// A late machine does not run a tick again, while the record of it exists or, without it, within AtLeast.
func TestLateMachine(t *testing.T) {
	for _, tt := range []struct {
		name    string
		atLeast time.Duration
		forgets bool
		want    []string
	}{
		{"record", 0, false, []string{"00:10 done"}},
		{"neither", 0, true, []string{"00:10 done", "00:10 done"}},
		{"at least", time.Minute, true, []string{"00:10 done"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				late := f.job(f.machine(), "@every 10m", takes(0), Options{AtLeast: tt.atLeast})
				before := time.Now()
				go f.runs(f.ctx, f.job(f.machine(), "@every 10m", takes(0), Options{AtLeast: tt.atLeast}))
				f.pass(10*time.Minute + 5*time.Second)
				if tt.forgets {
					for _, name := range places("nightly") {
						if _, err := late.client.Break(f.ctx, name, stile.BreakOptions{Head: true}); err != nil {
							t.Fatal(err)
						}
					}
				}
				if _, err := late.turn(f.ctx, before); err != nil {
					t.Error(err)
				}
				f.became(tt.want...)
			})
		})
	}
}

// A program that runs no more ticks can let the present run finish.
func TestFinish(t *testing.T) {
	inFleet(t, func(f *fleet) {
		ctx, stop := context.WithCancelCause(f.ctx)
		ended := make(chan error)
		begin := time.Now()
		work := func(ctx context.Context) error {
			if got, want := Tick(ctx), begin.Add(10*time.Minute); !got.Equal(want) {
				t.Errorf("Tick: got %v, want %v", got, want)
			}
			return takes(5 * time.Minute)(ctx)
		}
		go func() { ended <- f.job(f.machine(), "@every 10m", work, Options{}).Run(ctx) }()
		f.pass(11 * time.Minute)
		stop(ErrFinish)
		if err := <-ended; !errors.Is(err, ErrFinish) {
			t.Errorf("Run: got %v, want ErrFinish", err)
		}
		if took := time.Since(begin); took != 15*time.Minute {
			t.Errorf("Run returned after %v, want 15m", took)
		}
		f.became("00:10 done")
	})
}

func TestRunNow(t *testing.T) {
	inFleet(t, func(f *fleet) {
		var runs atomic.Int64
		j := f.job(f.machine(), "@every 10m", func(context.Context) error { runs.Add(1); return nil }, Options{})
		go f.runs(f.ctx, j)
		f.pass(11 * time.Minute)
		if err := j.RunNow(f.ctx); err != nil || runs.Load() != 2 {
			t.Errorf("RunNow: %v after %d runs", err, runs.Load())
		}
		f.pass(10 * time.Minute)
		f.became("00:10 done", "00:00 done", "00:20 done")
	})
}

func TestBadJobs(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c, work := f.machine(), takes(0)
		for _, tt := range []struct {
			schedule string
			work     func(context.Context) error
			o        Options
			want     string
		}{
			{"61 * * * *", work, Options{}, `jobs: job "x": schedule "61 * * * *": column 1, minute: end of range (61) above maximum (59): 61`},
			{"@daily", nil, Options{}, `jobs: job "x": it has nothing to do: the function is nil`},
			{"@daily", work, Options{AtLeast: -1}, `jobs: job "x": a time in its options is negative`},
			{"@daily", work, Options{AtLeast: time.Hour, MaxHold: time.Minute}, `jobs: job "x": MaxHold 1m0s is shorter than AtLeast 1h0m0s`},
			{"@daily", work, Options{Missed: 7}, `jobs: job "x": Missed is 7: want Skip, RunOnce or RunAll`},
			{"0,50 * * * *", work, Options{AtLeast: 10 * time.Minute},
				`jobs: job "x": schedule "0,50 * * * *" has ticks 10m0s apart, at 2000-01-01T00:50:00Z: AtLeast (10m0s) and Jitter (0s) must be shorter`},
		} {
			if _, err := New(c, "x", tt.schedule, tt.work, &tt.o); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		}
		short, err := stile.New(brief{f.store.Driver()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer short.Close()
		const most = `jobs: job "x": AtLeast 1m0.000000001s: brief keeps a lock for 1m0s at most`
		if _, err := New(short, "x", "@daily", work, &Options{AtLeast: time.Minute + 1}); err == nil || err.Error() != most {
			t.Errorf("on a store that keeps a lock for a minute: %v, want %s", err, most)
		}
		if _, err := New(short, "x", "@daily", work, &Options{AtLeast: time.Minute}); err != nil {
			t.Errorf("on a store that keeps a lock for so long: %v", err)
		}
		for _, place := range places("a job") {
			_, err := New(c, place, "@daily", work, nil)
			want := fmt.Sprintf("jobs: job %q: a name cannot end in %s: the last tick of job %q is kept there", place, place[5:], "a job")
			if err == nil || err.Error() != want {
				t.Errorf("a job that is called as what keeps the tick of another: %v; want %s", err, want)
			}
		}
		long, err := New(c, "long", "@every 1h", work, &Options{MaxHold: math.MaxInt64})
		if err == nil {
			err = long.RunNow(f.ctx)
		}
		if err != nil {
			t.Errorf("the longest MaxHold: %v", err)
		}
		j, err := New(c, "", "@daily", work, &Options{Missed: RunOnce})
		if err == nil {
			err = j.Run(f.ctx)
		}
		if !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("an empty name: %v", err)
		}
	})
}
