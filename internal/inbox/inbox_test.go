package inbox

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// A store is one whose messages are "ticket claim", and whose connections can be lost.
type store struct {
	ctx      context.Context
	tasks    sync.WaitGroup
	doubts   atomic.Int64
	deaf     bool          // a subscription is never confirmed
	refuses  bool          // a subscription fails
	messages chan string   // to the subscription
	lost     chan struct{} // ends the subscription
	begun    atomic.Int64  // subscriptions so far
	now      atomic.Int64  // subscriptions that there are
}

func (s *store) Context() context.Context { return s.ctx }
func (s *store) Doubt()                   { s.doubts.Add(1) }

func (s *store) Go(f func()) bool {
	if s.ctx.Err() != nil {
		return false
	}
	s.tasks.Go(f)
	return true
}

func (s *store) Subscribe(ctx context.Context, _ string, stands func(bool), told func(string)) error {
	s.begun.Add(1)
	s.now.Add(1)
	defer s.now.Add(-1)
	if s.refuses {
		<-time.After(time.Millisecond) // by the clock of the bubble
		return errors.New("refused")
	}
	if !s.deaf {
		stands(true)
	}
	for {
		select {
		case m := <-s.messages:
			told(m)
		case <-s.lost:
			return errors.New("lost")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin returns a store and the inboxes for its messages, which end with the test.
func begin(t *testing.T) (*store, *Set) {
	t.Helper()
	s := &store{ctx: t.Context(), messages: make(chan string), lost: make(chan struct{})}
	t.Cleanup(s.tasks.Wait)
	return s, New(s, func(text string) (string, int64, bool) {
		first, claim, _ := strings.Cut(text, " ")
		ticket, err := strconv.ParseInt(first, 10, 64)
		return claim, ticket, err == nil
	})
}

// listening waits until the subscription stands and the claim is expected.
func listening(t *testing.T, inboxes *Set, claim string) {
	t.Helper()
	if inboxes.Expect("channel", claim) {
		t.Fatal("a claim is expected before anybody listens")
	}
	if p, err := inboxes.Await(t.Context(), "channel", claim, 0); p.Holds || err != nil {
		t.Fatalf("await of a claim that is not expected = %+v, %v; want an early return", p, err)
	}
	if !inboxes.Expect("channel", claim) {
		t.Fatal("a claim is not expected although the subscription stands")
	}
}

func TestAClaimIsTold(t *testing.T) {
	for what, test := range map[string]struct {
		ticket   int64 // that the claim has
		messages []string
		want     driver.Place
	}{
		"new":            {0, []string{"7 a"}, driver.Place{Ticket: 7, Holds: true}},
		"with a ticket":  {7, []string{"7 a"}, driver.Place{Ticket: 7, Holds: true}},
		"another ticket": {6, []string{"7 a"}, driver.Place{}},
		"after others":   {0, []string{"", "x a", "5 b", "7 a"}, driver.Place{Ticket: 7, Holds: true}},
		"twice":          {0, []string{"7 a", "8 a"}, driver.Place{Ticket: 7, Holds: true}},
		"to enter again": {7, []string{"0 a"}, driver.Place{}},
		"before its own": {0, []string{"0 a"}, driver.Place{}},
		"and a ticket":   {7, []string{"0 a", "0 a", "7 a"}, driver.Place{Ticket: 7, Holds: true}},
		"but once":       {7, []string{"7 a", "0 a"}, driver.Place{Ticket: 7, Holds: true}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, inboxes := begin(t)
				listening(t, inboxes, "a")
				for _, m := range test.messages {
					s.messages <- m
				}
				synctest.Wait()
				got, err := inboxes.Await(t.Context(), "channel", "a", test.ticket)
				if err != nil || got != test.want {
					t.Errorf("await = %+v, %v; want %+v", got, err, test.want)
				}
				if w := inboxes.find("channel", "a"); w != nil {
					t.Error("a claim that was told is expected still")
				}
			})
		})
	}
}

// A claim whose subscription is lost returns early, is not expected any more, and is once the next subscription stands.
func TestALostSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		listening(t, inboxes, "a")
		ended := make(chan driver.Place, 1)
		go func() {
			p, err := inboxes.Await(t.Context(), "channel", "a", 0)
			if err != nil {
				t.Errorf("await = %v", err)
			}
			ended <- p
		}()
		synctest.Wait()
		s.lost <- struct{}{}
		if p := <-ended; p.Holds {
			t.Errorf("await = %+v; want an early return", p)
		}
		synctest.Wait()
		if n := s.doubts.Load(); n != 1 {
			t.Errorf("the loss was told %d times; want once", n)
		}
		listening(t, inboxes, "a")
		if n := s.begun.Load(); n != 2 {
			t.Errorf("%d subscriptions were begun; want 2", n)
		}
	})
}

// A subscription on which nobody waits ends after a while, and is made again when it is needed.
func TestAnIdleSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		for round := range 3 {
			listening(t, inboxes, "a")
			time.Sleep(2 * inboxes.Idle)
			synctest.Wait()
			if n := s.now.Load(); n != 1 {
				t.Fatalf("round %d: %d subscriptions while a claim waits; want 1", round, n)
			}
			inboxes.Forget("channel", "a")
			time.Sleep(inboxes.Idle - 1)
			synctest.Wait()
			if s.now.Load() != 1 {
				t.Errorf("round %d: the subscription ended early", round)
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if now, n := s.now.Load(), len(inboxes.byChannel); now != 0 || n != 0 {
				t.Errorf("round %d: %d subscriptions, %d inboxes while nobody waits; want none", round, now, n)
			}
		}
	})
}

// Trap: in the lock service the driver outlives its clients. A client that died while it waited sends nothing, and its
// subscription must end all the same; the subscription of a client that waits for long goes on.
func TestAClientThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		listening(t, inboxes, "dead")
		inboxes.Expect("channel", "alive")
		told := make(chan driver.Place, 1)
		go func() {
			p, err := inboxes.Await(t.Context(), "channel", "alive", 0)
			if err != nil {
				t.Errorf("await = %v", err)
			}
			told <- p
		}()
		time.Sleep(2 * unheard)
		synctest.Wait()
		if n, is := s.now.Load(), inboxes.find("channel", "dead"); n != 1 || is != nil {
			t.Errorf("%d subscriptions, and the dead claim is %v; want one subscription, and the claim forgotten", n, is)
		}
		s.messages <- "7 alive"
		if p := <-told; p.Ticket != 7 || !p.Holds {
			t.Errorf("await = %+v; want ticket 7", p)
		}
		time.Sleep(2 * inboxes.Idle)
		synctest.Wait()
		if n := s.now.Load(); n != 0 {
			t.Errorf("%d subscriptions while nobody waits; want none", n)
		}
	})
}

// A claim that does not come again after the subscription was lost does not keep the next one up.
func TestAnIdleSubscriptionAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		listening(t, inboxes, "a")
		time.Sleep(2 * inboxes.Idle)
		s.lost <- struct{}{}
		time.Sleep(2 * inboxes.Idle)
		synctest.Wait()
		if n := s.now.Load(); n != 0 {
			t.Errorf("%d subscriptions while nobody waits; want none", n)
		}
	})
}

// awaits lets a claim wait for an unconfirmed subscription, for each of the times.
func awaits(t *testing.T, inboxes *Set, times ...time.Duration) {
	t.Helper()
	for i, want := range times {
		start := time.Now()
		if p, err := inboxes.Await(t.Context(), "channel", "a", 0); p.Holds || err != nil || time.Since(start) != want {
			t.Errorf("await %d = %+v, %v after %v while nothing is confirmed; want an early return after %v", i, p, err, time.Since(start), want)
		}
	}
}

// While the first attempt to subscribe lasts, the store may be busy with others and is asked less often. Once it has failed,
// a waiter asks at once, and then as often as without a subscription.
func TestAStoreThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		s.refuses = true
		awaits(t, inboxes, time.Millisecond, askAgain, askAgain)
	})
}

// Await never waits long for a subscription, and ends with its context and with the driver.
func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		s.deaf = true
		awaits(t, inboxes, soon, askAgain, askAgain)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := inboxes.Await(ctx, "channel", "a", 0); !errors.Is(err, context.Canceled) {
			t.Errorf("await = %v; want the context's error", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		ctx, cancel := context.WithCancel(s.ctx)
		s.ctx = ctx
		listening(t, inboxes, "a")
		time.AfterFunc(time.Second, cancel)
		if _, err := inboxes.Await(t.Context(), "channel", "a", 0); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("await of a driver that is closed meanwhile = %v; want ErrClosed", err)
		}
		if _, err := inboxes.Await(t.Context(), "channel", "b", 0); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("await of a closed driver = %v; want ErrClosed", err)
		}
	})
}

// A subscription that was put off begins at its time, or when a claim comes that cannot wait that long; and not at all if
// nobody is left.
func TestPutOff(t *testing.T) {
	for what, test := range map[string]struct {
		delays []time.Duration // of the claims that come, 10 ms after one another
		begins time.Duration   // after the first
	}{
		"alone":         {[]time.Duration{80 * time.Millisecond}, 80 * time.Millisecond},
		"at once":       {[]time.Duration{0}, 0},
		"a later one":   {[]time.Duration{80 * time.Millisecond, 80 * time.Millisecond}, 80 * time.Millisecond},
		"a sooner one":  {[]time.Duration{80 * time.Millisecond, 30 * time.Millisecond}, 40 * time.Millisecond},
		"twice sooner":  {[]time.Duration{80 * time.Millisecond, 50 * time.Millisecond, 0}, 20 * time.Millisecond},
		"one at once":   {[]time.Duration{80 * time.Millisecond, 0}, 10 * time.Millisecond},
		"one after all": {[]time.Duration{0, 80 * time.Millisecond}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, inboxes := begin(t)
				start := time.Now()
				go func() {
					for _, delay := range test.delays {
						inboxes.Within("channel", delay)
						time.Sleep(10 * time.Millisecond)
					}
				}()
				synctest.Wait()
				if n := s.begun.Load(); test.begins > 0 && n != 0 {
					t.Errorf("%d subscriptions were begun at once; want none", n)
				}
				if p, err := inboxes.Await(t.Context(), "channel", "a", 0); p.Holds || err != nil || time.Since(start) != test.begins {
					t.Errorf("await = %+v, %v after %v; want an early return after %v", p, err, time.Since(start), test.begins)
				}
				time.Sleep(100 * time.Millisecond)
				if n := s.begun.Load(); n != 1 || !inboxes.Stands("channel") {
					t.Errorf("%d subscriptions were begun, and one stands: %v; want one", n, inboxes.Stands("channel"))
				}
			})
		})
	}
}

// A driver that is closed ends a subscription that was put off, and nothing is sent for that.
func TestPutOffAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		ctx, stop := context.WithCancel(t.Context())
		s.ctx = ctx
		inboxes.Within("channel", time.Hour)
		synctest.Wait()
		stop()
		s.tasks.Wait()
		inboxes.Within("channel", 0)
		if n := s.begun.Load(); n != 0 {
			t.Errorf("%d subscriptions were begun; want none", n)
		}
	})
}

// One that was put off for longer than idle ones are kept begins all the same.
func TestPutOffForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inboxes := begin(t)
		inboxes.Within("channel", 2*inboxes.Idle)
		time.Sleep(2*inboxes.Idle + inboxes.Idle/2)
		if n := s.begun.Load(); n != 1 {
			t.Errorf("%d subscriptions were begun; want 1", n)
		}
		time.Sleep(inboxes.Idle)
		synctest.Wait()
		if n := s.now.Load(); n != 0 {
			t.Errorf("%d subscriptions while nobody waits; want none", n)
		}
	})
}
