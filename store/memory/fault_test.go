package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// listed returns the ids, as records, of the claims in the queue that all tests use.
func listed(t *testing.T, s *memory.Store) string {
	t.Helper()
	list, err := s.Driver().List(t.Context(), &driver.Query{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	ids := ""
	for _, l := range list {
		for _, c := range l.Claims {
			ids += c.Record
		}
	}
	return ids
}

func recorded(id string) *driver.Claim {
	c := claim(id)
	c.Record = id
	return c
}

func TestFaultsOfEnter(t *testing.T) {
	definite := driver.Refused(errors.New("out of memory"))
	tests := []struct {
		name    string
		fault   memory.Fault
		err     error // of the call that meets the fault, on a context of 5 seconds
		took    time.Duration
		applied string // the queue when the call returns
		later   string // the queue 4 seconds later
	}{
		{"none", memory.Fault{}, nil, 0, "1", "1"},
		{"lose", memory.Fault{Lose: true}, memory.ErrInjected, 0, "1", "1"},
		{"drop", memory.Fault{Drop: true}, memory.ErrInjected, 0, "", ""},
		{"refuse", memory.Fault{Err: definite}, definite, 0, "", ""},
		{"hang", memory.Fault{Hang: true}, context.DeadlineExceeded, 5 * time.Second, "", ""},
		{"lose and hang", memory.Fault{Lose: true, Hang: true}, context.DeadlineExceeded, 5 * time.Second, "1", "1"},
		{"slow request", memory.Fault{Before: time.Second}, nil, time.Second, "1", "1"},
		{"slow reply", memory.Fault{After: time.Second}, nil, time.Second, "1", "1"},
		{"slow and lost", memory.Fault{Before: time.Second, After: time.Second, Lose: true}, memory.ErrInjected, 2 * time.Second, "1", "1"},
		{"too slow a request", memory.Fault{Before: 7 * time.Second}, context.DeadlineExceeded, 5 * time.Second, "", ""},
		{"too slow a reply", memory.Fault{After: 7 * time.Second}, context.DeadlineExceeded, 5 * time.Second, "1", "1"},
		{"late", memory.Fault{Before: 7 * time.Second, Late: true}, context.DeadlineExceeded, 5 * time.Second, "", "1"},
		{"late and lost", memory.Fault{Before: 7 * time.Second, Late: true, Drop: true}, context.DeadlineExceeded, 5 * time.Second, "", ""},
		{"another verb", memory.Fault{Verb: memory.Leave, Drop: true}, nil, 0, "1", "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := memory.New()
				d.Inject(test.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				start := time.Now()
				_, err := d.Enter(ctx, recorded("1"))
				if !errors.Is(err, test.err) || time.Since(start) != test.took {
					t.Errorf("enter = %v after %v; want %v after %v", err, time.Since(start), test.err, test.took)
				}
				if got := listed(t, d.Store()); got != test.applied {
					t.Errorf("in the queue: %q, want %q", got, test.applied)
				}
				<-time.After(4 * time.Second)
				synctest.Wait()
				if got := listed(t, d.Store()); got != test.later {
					t.Errorf("in the queue later: %q, want %q", got, test.later)
				}
			})
		})
	}
}

func TestFaultsOfOtherVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		c := claim("1")
		enter(t, d, c)
		d.Inject(memory.Fault{Verb: memory.Renew, Drop: true})
		answers := d.Renew(t.Context(), []*driver.Claim{c, c})
		for i, a := range answers {
			if !errors.Is(a.Err, memory.ErrInjected) || driver.NotApplied(a.Err) {
				t.Errorf("answer %d = %v, want ErrInjected", i, a.Err)
			}
		}
		if a := d.Renew(t.Context(), []*driver.Claim{c}); a[0].Err != nil {
			t.Errorf("renewal after the fault = %v, want nil", a[0].Err)
		}
		d.Inject(memory.Fault{Verb: memory.Leave, Lose: true})
		if err := d.Leave(t.Context(), &driver.Release{Claim: c}); !errors.Is(err, memory.ErrInjected) {
			t.Errorf("leave = %v, want ErrInjected", err)
		}
		if err := d.Leave(t.Context(), &driver.Release{Claim: c}); !errors.Is(err, driver.ErrGone) {
			t.Errorf("leave after its reply was lost = %v, want ErrGone", err)
		}
	})
}

func TestFaultsAreCountedAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		d.Inject(memory.Fault{Verb: memory.Enter, Times: 2, Drop: true})
		d.Inject(memory.Fault{Times: -1, Err: driver.ErrForeign})
		for i, want := range []error{memory.ErrInjected, memory.ErrInjected, driver.ErrForeign, driver.ErrForeign} {
			if _, err := d.Enter(t.Context(), claim("1")); !errors.Is(err, want) {
				t.Errorf("enter %d = %v, want %v", i, err, want)
			}
		}
		d.SetLink(memory.Refused)
		d.Heal()
		enter(t, d, claim("1"))
		if _, err := d.List(t.Context(), &driver.Query{}); err != nil {
			t.Errorf("list = %v, want nil", err)
		}
		if got := d.Calls(memory.Enter); got != 5 {
			t.Errorf("%d calls of enter, want 5", got)
		}
		if got := d.Calls(""); got != 6 {
			t.Errorf("%d calls, want 6", got)
		}
	})
}

func TestLinkDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		other := d.Store().Driver()
		d.SetLink(memory.Refused)
		if _, err := d.Enter(t.Context(), claim("1")); !driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeUnsent {
			t.Errorf("enter on a refused link = %v, %v; want an error that says unreachable, and unsent", err, driver.OutcomeOf(err))
		}
		d.SetLink(memory.Silent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := d.Enter(ctx, claim("1")); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("enter on a silent link = %v after %v, want the context's error after 1s", err, time.Since(start))
		}
		if got := listed(t, d.Store()); got != "" {
			t.Errorf("in the queue: %q, want nothing", got)
		}
		if p := enter(t, other, claim("2")); !p.Holds {
			t.Errorf("enter of another driver = %+v, want one that holds", p)
		}
	})
}

func TestLinkUnnotified(t *testing.T) {
	for _, link := range []memory.Link{memory.Unnotified, memory.Refused, memory.Silent} {
		synctest.Test(t, func(t *testing.T) {
			holder := memory.New()
			d := holder.Store().Driver()
			enter(t, holder, claim("1"))
			waiter := claim("2")
			waiter.Wait = time.Minute
			enter(t, d, waiter)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			start := time.Now()
			ended := make(chan error, 1)
			go func() {
				_, err := d.Await(ctx, waiter)
				ended <- err
			}()
			synctest.Wait()
			d.SetLink(link)
			if err := holder.Leave(t.Context(), &driver.Release{Claim: claim("1")}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			d.SetLink(memory.Up)
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 20*time.Second {
				t.Errorf("await = %v after %v; want the context's error after 20s", err, time.Since(start))
			}
			if p := enter(t, d, waiter); !p.Holds {
				t.Errorf("enter = %+v, want one that holds", p)
			}
		})
	}
}

func TestUnnotifiedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		enter(t, d, claim("1"))
		d.SetLink(memory.Unnotified)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Await(ctx, claim("1")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await = %v, want the context's error", err)
		}
	})
}

func TestSteal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		if _, err := d.Steal("a", time.Minute); !errors.Is(err, driver.ErrGone) {
			t.Errorf("steal of a free name = %v, want ErrGone", err)
		}
		c := claim("1")
		p := enter(t, d, c)
		thief, err := d.Steal("a", time.Minute)
		if err != nil || !thief.Holds || thief.Ticket <= p.Ticket || thief.Remaining != time.Minute {
			t.Errorf("steal = %+v, %v; want a claim that holds for 1m, with a ticket above %d", thief, err, p.Ticket)
		}
		if a := d.Renew(t.Context(), []*driver.Claim{c}); !errors.Is(a[0].Err, driver.ErrGone) {
			t.Errorf("renewal of the former holder = %v, want ErrGone", a[0].Err)
		}
		if p := enter(t, d, claim("2")); p.Holds || p.Blocker.Record != "thief" {
			t.Errorf("enter = %+v, want one that waits for the thief", p)
		}
		if thief, err = d.Steal("a", time.Minute); err != nil || thief.Holds {
			t.Errorf("second steal = %+v, %v; want a thief behind the claim that waited", thief, err)
		}
	})
}

func TestCloseEndsWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		d.SetLink(memory.Silent)
		ended := make(chan error, 1)
		go func() {
			_, err := d.Enter(context.Background(), claim("1"))
			ended <- err
		}()
		synctest.Wait()
		d.Close()
		if err := <-ended; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("enter = %v, want ErrClosed", err)
		}
	})
}
