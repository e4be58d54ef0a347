package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// answers returns work that takes a time and answers with its token.
func answers(after time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return fmt.Sprint("paid under ", stile.Token(ctx)), takes(after)(ctx)
	}
}

// Of many callers on several machines one runs the work, and all get its answer, during the run and after.
func TestOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		var (
			mu    sync.Mutex
			texts = map[string]int{}
			here  int
			calls sync.WaitGroup
		)
		for range 3 {
			call := Once(f.machine(), "orders/42/paid", time.Hour)
			for i := range 4 {
				calls.Go(func() {
					f.pass(time.Duration(i) * 20 * time.Second) // the last ones call after the run
					a, err := call.Do(f.ctx, answers(50*time.Second))
					mu.Lock()
					defer mu.Unlock()
					if texts[a.Text]++; a.Here {
						here++
					}
					if err != nil || a.Text != fmt.Sprint("paid under ", a.Ticket) {
						t.Errorf("got %q under %d, %v", a.Text, a.Ticket, err)
					}
				})
			}
		}
		calls.Wait()
		if len(texts) != 1 || here != 1 {
			t.Errorf("%d runs, answers %v", here, texts)
		}
	})
}

// An answer is kept for the requested time. Then the work runs again.
func TestOnceKeeps(t *testing.T) {
	inFleet(t, func(f *fleet) {
		call := Once(f.machine(), "k", time.Hour)
		if a, err := call.Answer(f.ctx); a != (Answer{}) || err != nil {
			t.Fatalf("before: %v, %v", a, err)
		}
		first, err := call.Do(f.ctx, answers(0))
		if err != nil || !first.Here {
			t.Fatalf("first: %v, %v", first, err)
		}
		f.pass(59 * time.Minute)
		kept, err := Once(f.machine(), "k", time.Hour).Answer(f.ctx)
		if kept.Text != first.Text || kept.Ticket != first.Ticket || kept.Here || err != nil {
			t.Errorf("after 59 minutes: %v, %v; want %v", kept, err, first)
		}
		f.pass(2 * time.Minute)
		again, err := call.Do(f.ctx, answers(0))
		if !again.Here || again.Ticket <= first.Ticket || err != nil {
			t.Errorf("after 61 minutes: %v, %v; want a run with a token above %d", again, err, first.Ticket)
		}
	})
}

// A run that fails, panics or dies leaves the work to the next call, with a higher token.
func TestOnceAfterFailure(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(f *fleet, c *stile.Client) (token int64)
	}{
		{"error", func(f *fleet, c *stile.Client) (token int64) {
			broke := errors.New("the bank is away")
			a, err := Once(c, "k", time.Hour).Do(f.ctx, func(ctx context.Context) (string, error) {
				token = stile.Token(ctx)
				return "never seen", broke
			})
			if !errors.Is(err, broke) || a != (Answer{}) {
				f.Errorf("got %v, %v", a, err)
			}
			return token
		}},
		{"panic", func(f *fleet, c *stile.Client) (token int64) {
			defer func() {
				if recover() == nil {
					f.Error("the panic did not reach the caller")
				}
			}()
			Once(c, "k", time.Hour).Do(f.ctx, func(ctx context.Context) (string, error) { //nolint:errcheck // it panics
				token = stile.Token(ctx)
				panic("no bank")
			})
			return token
		}},
		{"death", func(f *fleet, c *stile.Client) (token int64) {
			tokens := make(chan int64)
			go Once(c, "k", time.Hour).Do(f.ctx, func(ctx context.Context) (string, error) { //nolint:errcheck // it dies
				tokens <- stile.Token(ctx)
				c.Close() // its claim stays until it runs out
				return "never seen", nil
			})
			return <-tokens
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				token := tt.fail(f, f.machine())
				a, err := Once(f.machine(), "k", time.Hour).Do(f.ctx, answers(0))
				if err != nil || !a.Here || a.Ticket <= token {
					t.Errorf("next: %v, %v; want a run with a token above %d", a, err, token)
				}
			})
		})
	}
}

func TestOnceTry(t *testing.T) {
	inFleet(t, func(f *fleet) {
		go Once(f.machine(), "k", time.Hour).Do(f.ctx, answers(time.Minute)) //nolint:errcheck // looked at by Try
		f.pass(time.Second)
		call := Once(f.machine(), "k", time.Hour)
		if _, err := call.Try(f.ctx, answers(0)); !errors.Is(err, stile.ErrHeld) {
			t.Errorf("during the run: got %v, want ErrHeld", err)
		}
		f.pass(time.Minute)
		if a, err := call.Try(f.ctx, answers(0)); err != nil || a.Here || a.Ticket == 0 {
			t.Errorf("after the run: %v, %v", a, err)
		}
	})
}

// If a store loses an answer, the work runs again. The token lets the resource refuse the second run.
func TestOnceForgotten(t *testing.T) {
	inFleet(t, func(f *fleet) {
		call := Once(f.machine(), "k", time.Hour)
		first, err := call.Do(f.ctx, answers(0))
		if err == nil {
			_, err = call.client.Break(f.ctx, "k/done", stile.BreakOptions{Head: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		second, err := call.Do(f.ctx, answers(0))
		if err != nil || !second.Here || second.Ticket <= first.Ticket {
			t.Errorf("got %v, %v; want a run with a token above %d", second, err, first.Ticket)
		}
	})
}

// A run whose lock is broken keeps no answer, and its error says that it may have overlapped.
func TestOnceLost(t *testing.T) {
	inFleet(t, func(f *fleet) {
		broken := Once(f.machine(), "k", time.Hour)
		a, err := broken.Do(f.ctx, func(ctx context.Context) (string, error) {
			if _, err := broken.client.Break(f.ctx, "k", stile.BreakOptions{Head: true}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return "too late", nil
		})
		if !errors.Is(err, stile.ErrLost) || !a.Here || a.Text != "too late" {
			t.Errorf("got %v, %v; want the answer beside ErrLost", a, err)
		}
		if a, err := broken.Answer(f.ctx); a != (Answer{}) || err != nil {
			t.Errorf("kept: %v, %v", a, err)
		}
	})
}

// A run that fails after its lock was broken returns both errors.
func TestOnceFailsAndLost(t *testing.T) {
	inFleet(t, func(f *fleet) {
		call, broke := Once(f.machine(), "k", time.Hour), errors.New("the bank is away")
		_, err := call.Do(f.ctx, func(context.Context) (string, error) {
			_, err := call.client.Break(f.ctx, "k", stile.BreakOptions{Head: true})
			return "", errors.Join(broke, err)
		})
		if !errors.Is(err, broke) || !errors.Is(err, stile.ErrLost) {
			t.Errorf("got %v, want both", err)
		}
	})
}

// The first kept answer counts, even for a run that overlapped without knowing.
func TestOnceFirstAnswerCounts(t *testing.T) {
	inFleet(t, func(f *fleet) {
		slow, quick := Once(f.machine(), "k", time.Hour), Once(f.machine(), "k", time.Hour)
		var first Answer
		a, err := slow.Do(f.ctx, func(context.Context) (string, error) {
			_, err := slow.client.Break(f.ctx, "k", stile.BreakOptions{Head: true})
			if err == nil {
				first, err = quick.Do(f.ctx, answers(0))
			}
			return "second", err
		})
		if !errors.Is(err, stile.ErrLost) || a.Here || a.Text != first.Text || a.Ticket != first.Ticket {
			t.Errorf("got %v, %v; want %v beside ErrLost", a, err, first)
		}
	})
}

// Work whose answer cannot be kept is still done, and the error says so.
func TestOnceNotKept(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"long", strings.Repeat("x", MaxAnswer+1), "its 2049 bytes are 2049 in JSON; want UTF-8 of 2048 at most"},
		{"bytes", "\xff", "its 1 bytes are 6 in JSON; want UTF-8 of 2048 at most"},
	} {
		inFleet(t, func(f *fleet) {
			a, err := Once(f.machine(), "k", time.Hour).Do(f.ctx, func(context.Context) (string, error) { return tt.text, nil })
			want := `jobs: once "k": the work was done, and its answer may not be kept: ` + tt.want
			if !errors.Is(err, ErrNotKept) || err.Error() != want || a.Text != tt.text || !a.Here {
				t.Errorf("%s: got %v\nwant %s", tt.name, err, want)
			}
		})
	}
	inFleet(t, func(f *fleet) {
		d := f.store.Driver()
		c, err := stile.New(d, &stile.Options{Patience: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := Once(c, "k", time.Hour).Do(f.ctx, func(context.Context) (string, error) {
			d.SetLink(memory.Refused)
			return "paid", nil
		})
		if !errors.Is(err, ErrNotKept) || !errors.Is(err, stile.ErrUnreachable) || a.Text != "paid" {
			t.Errorf("away: got %v, %v", a, err)
		}
	})
}

// A caller that gives up does not undo the work: the answer is kept for the next call.
func TestOnceAnswerOutlivesItsCaller(t *testing.T) {
	inFleet(t, func(f *fleet) {
		ctx, cancel := context.WithCancel(f.ctx)
		call := Once(f.machine(), "k", time.Hour)
		if a, err := call.Do(ctx, func(context.Context) (string, error) { cancel(); return "paid", nil }); err != nil || a.Text != "paid" {
			t.Errorf("got %v, %v", a, err)
		}
		if a, err := call.Answer(f.ctx); err != nil || a.Text != "paid" {
			t.Errorf("kept: got %v, %v", a, err)
		}
	})
}

// own is a store whose claims belong only to their clients.
type own struct{ *memory.Driver }

func (o own) Traits() driver.Traits {
	t := o.Driver.Traits()
	t.Store, t.OwnClient = "own", true
	return t
}

// brief is a store that keeps a claim for only a minute, as Redlock does.
type brief struct{ *memory.Driver }

func (b brief) Traits() driver.Traits {
	t := b.Driver.Traits()
	t.Store, t.MaxTTL = "brief", time.Minute
	return t
}

func (b brief) Leave(ctx context.Context, d *driver.Release) error {
	if d.Keep > time.Minute {
		return driver.Refused(errors.New("too long"))
	}
	return b.Driver.Leave(ctx, d)
}

// A store that cannot keep a claim for a day runs jobs too, and forgets their ticks a minute after the last machine has
// gone.
func TestBriefStore(t *testing.T) {
	inFleet(t, func(f *fleet) {
		c, err := stile.New(brief{f.store.Driver()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(f.ctx, func() { c.Close() })
		ctx, stop := context.WithCancel(f.ctx)
		defer stop()
		go f.runs(ctx, f.job(c, "@every 10m", takes(0), Options{}))
		f.pass(15 * time.Minute)
		if p, err := Last(f.ctx, c, "nightly"); err != nil || !p.Over {
			t.Errorf("after five minutes: %+v, %v", p, err)
		}
		stop()
		f.pass(time.Minute + time.Second)
		if p, err := Last(f.ctx, c, "nightly"); err != nil || p != (Past{}) {
			t.Errorf("a minute after the machine has stopped: %+v, %v", p, err)
		}
		f.became("00:10 done")
	})
}

func TestBadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		open := func(d driver.Driver) *stile.Client {
			c, err := stile.New(d, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		c := open(s.Driver())
		if _, err := c.Candidate("used/done", "by others").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			call   *Call
			work   func(context.Context) (string, error)
			reason error
			want   string
		}{
			{Once(nil, "k", time.Hour), answers(0), stile.ErrInvalid, `jobs: once "k": stile: show "k/done": invalid client: make one with Open or New`},
			{Once(c, "", time.Hour), nil, stile.ErrInvalid, `jobs: once "": invalid function: it is nil`},
			{Once(c, "k/done", time.Hour), answers(0), stile.ErrInvalid, `jobs: once "k/done": invalid key: it cannot end in /done, since the answer of "k" is kept there`},
			{Once(c, "k", 0), answers(0), stile.ErrInvalid, `jobs: once "k": invalid time to keep an answer 0s: in memory it must be more than 0, and 24h0m0s at most`},
			{Once(c, "k", 25*time.Hour), answers(0), stile.ErrInvalid, `jobs: once "k": invalid time to keep an answer 25h0m0s: in memory it must be more than 0, and 24h0m0s at most`},
			{Once(open(own{s.Driver()}), "k", time.Hour), answers(0), stile.ErrUnsupported, ``},
			{Once(open(brief{s.Driver()}), "k", time.Hour), answers(0), stile.ErrInvalid, `jobs: once "k": invalid time to keep an answer 1h0m0s: in brief it must be more than 0, and 1m0s at most`},
			{Once(c, "used", time.Hour), answers(0), stile.ErrForeign, ``},
		} {
			if _, err := tt.call.Do(t.Context(), tt.work); !errors.Is(err, tt.reason) || tt.want != "" && err.Error() != tt.want {
				t.Errorf("%q: got %v, want %v: %s", tt.call.key, err, tt.reason, tt.want)
			}
		}
	})
}
