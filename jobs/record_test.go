package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

// A run that is repeatedly cut off is made up for with growing pauses, and no tick behind it is lost.
func TestCutOffPauses(t *testing.T) {
	for _, missed := range []Missed{RunOnce, RunAll} {
		inFleet(t, func(f *fleet) {
			c := f.machine()
			var begun []time.Duration
			start := time.Now()
			work := func(ctx context.Context) error {
				begun = append(begun, time.Since(start)-time.Hour)
				if len(begun) == 6 {
					return nil
				}
				if _, err := c.Break(f.ctx, "nightly", stile.BreakOptions{Head: true}); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return ctx.Err()
			}
			go f.runs(f.ctx, f.job(c, "@every 1h", work, Options{Missed: missed}))
			f.pass(time.Hour + 30*time.Minute)
			if len(begun) != 6 {
				t.Fatalf("Missed %d: %d runs in half an hour, want 6: %v", missed, len(begun), begun)
			}
			last := time.Duration(0)
			for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute} {
				if gap := begun[i+1] - begun[i]; gap < want || gap > want+15*time.Second || gap < last {
					t.Errorf("Missed %d: pause %d is %v, want %v and what it takes to find the loss out", missed, i+1, gap, want)
				}
				last = begun[i+1] - begun[i]
			}
		})
	}
}

// Work that stopped itself in time, since its lease could not be renewed, was cut off: it is made up for, even if the store
// came back before the lease was over. The loss of another lock counts as a failure of the work.
func TestWorkTellsLoss(t *testing.T) {
	for name, want := range map[string][]string{"nightly": {"01:00 cut off", "01:00 done"}, "other": {"01:00 failed"}} {
		inFleet(t, func(f *fleet) {
			runs := 0
			work := func(context.Context) error {
				if runs++; runs > 1 {
					return nil
				}
				return &stile.Error{Op: "renew", Name: name, Err: &stile.LostError{Reason: stile.ReasonExpired}}
			}
			go f.runs(f.ctx, f.job(f.machine(), "@every 1h", work, Options{Missed: RunAll}))
			f.pass(time.Hour + 30*time.Minute)
			f.became(want...)
		})
	}
}

// Anybody can read the outcome of the last tick, during the run and after.
func TestLast(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c, looks := f.machine(), f.machine()
		broke := errors.New(strings.Repeat("no figures ", 500))
		work := func(ctx context.Context) error {
			<-time.After(2 * time.Minute)
			return broke
		}
		go f.runs(f.ctx, f.job(c, "@every 10m", work, Options{}))
		tick := time.Now().Add(10 * time.Minute).UTC()
		f.pass(9 * time.Minute)
		if p, err := Last(f.ctx, looks, "nightly"); err != nil || p != (Past{}) {
			t.Errorf("before: %v, %v", p, err)
		}
		f.pass(2 * time.Minute)
		p, err := Last(f.ctx, looks, "nightly")
		if err != nil || !p.Tick.Equal(tick) || p.Over || !p.Next.Equal(tick.Add(10*time.Minute)) || p.Ticket == 0 || p.By.PID == 0 {
			t.Errorf("during: %+v, %v", p, err)
		}
		f.pass(2 * time.Minute)
		after, err := Last(f.ctx, looks, "nightly")
		if err != nil || !after.Tick.Equal(tick) || !after.Over || after.Outcome != Failed || after.Took != 2*time.Minute || after.Ticket != p.Ticket {
			t.Errorf("after: %+v, %v", after, err)
		}
		if len(after.Err) != mostText || !strings.HasPrefix(broke.Error(), after.Err) {
			t.Errorf("%d bytes are kept of an error of %d, want %d", len(after.Err), len(broke.Error()), mostText)
		}
	})
}

// The store keeps the last tick of a weekly job all week, with the machine that ran, while any machine lives. A machine that
// starts after days makes up for no tick that was run.
func TestLastOfWeeklyJob(t *testing.T) {
	inFleet(t, func(f *fleet) {
		looks := f.machine()
		start := func() (stop func()) {
			ctx, stop := context.WithCancel(f.ctx)
			go f.runs(ctx, f.job(f.machine(), "0 3 * * 1", takes(time.Minute), Options{Missed: RunAll}))
			return stop
		}
		leaves := start()
		f.pass(52 * time.Hour) // from Saturday to Monday, 4 h
		f.became("03:00 done")
		first, err := Last(f.ctx, looks, "nightly")
		if err != nil || first.Outcome != Done {
			t.Fatalf("after the tick: %+v, %v", first, err)
		}
		for round := range 6 {
			leave := start()
			f.pass(25 * time.Hour) // a time at which the record is not being written again
			leaves()
			leaves = leave
			if p, err := Last(f.ctx, looks, "nightly"); err != nil || p != first {
				t.Errorf("in round %d: %+v, %v; want %+v", round, p, err, first)
			}
		}
		f.became("03:00 done")
		f.pass(24 * time.Hour)
		f.became("03:00 done", "03:00 done")
		leaves()
	})
}

func TestLastOfSomethingElse(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for name, value := range map[string]string{"text": "hello", "json": `{"hello":1}`, "stage": `{"tick":"2026-01-01T00:00:00Z","stage":"x","token":"1"}`} {
			c := f.machine()
			if _, err := c.Candidate(name+"/last", value).Lock(f.ctx); err != nil {
				t.Fatal(err)
			}
			if p, err := Last(f.ctx, c, name); !errors.Is(err, stile.ErrForeign) {
				t.Errorf("%s: %v, %v; want ErrForeign", name, p, err)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 3000), strings.Repeat("é", 2000), strings.Repeat("\x00", 2048), strings.Repeat("\xff", 3000)} {
		got := cut(text, mostText)
		quoted, err := json.Marshal(got)
		if err != nil || len(quoted) > mostText+2 || !strings.HasPrefix(text, got) {
			t.Errorf("%.10q: %d bytes, %d in JSON (%v)", text, len(got), len(quoted), err)
		}
		if len(text) < 100 && got != text || len(text) >= 3000 && text[0] == 'x' && len(got) != mostText {
			t.Errorf("%.10q is cut to %d bytes", text, len(got))
		}
	}
}
