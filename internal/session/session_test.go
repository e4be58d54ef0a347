package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

const timeout = 30 * time.Second

// client opens a client of a server.
func (f *fakeServer) client(t *testing.T) *Session {
	t.Helper()
	c := fakeClient{f, work.Begin()}
	home, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := New(c, c.life, timeout, home)
	t.Cleanup(func() { s.Close() })
	return s
}

var ids int

func wanted(name string, change ...func(*driver.Claim)) *driver.Claim {
	ids++
	c := &driver.Claim{
		Name: name, ID: fmt.Sprint("id-", ids), Weight: driver.All, Capacity: driver.All, TTL: timeout, Wait: 5 * time.Second,
	}
	for _, do := range change {
		do(c)
	}
	return c
}

func try(c *driver.Claim)    { c.Try = true }
func reader(c *driver.Claim) { c.Weight = 1 }

func enter(t *testing.T, s *Session, c *driver.Claim, holds bool) driver.Place {
	t.Helper()
	p, err := s.Enter(t.Context(), c)
	if err != nil || p.Holds != holds {
		t.Fatalf("enter = %+v, %v; want holds %v", p, err, holds)
	}
	c.Ticket = p.Ticket
	return p
}

func leave(t *testing.T, s *Session, c *driver.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
		t.Fatalf("leave = %v", err)
	}
}

func renew(s *Session, c *driver.Claim) error {
	return s.Renew(context.Background(), []*driver.Claim{c})[0].Err
}

// A claim that enters or leaves without an answer is not said to be gone, its key is not asked for again, and its connection
// is not used again, before the server says that it knows the connection no more.
func TestNoAnswer(t *testing.T) {
	for what, m := range map[string]mood{"done": silent, "not done": deaf} {
		for _, holds := range []bool{false, true} {
			t.Run(fmt.Sprint(what, holds), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(t)
					s := f.client(t)
					a := wanted("a")
					if holds {
						enter(t, s, a, true)
					}
					f.be(m)
					if !holds {
						if _, err := s.Enter(t.Context(), a); driver.OutcomeOf(err) != driver.OutcomeUnknown {
							t.Fatalf("enter = %v; want an unknown outcome", err)
						}
					}
					for range 2 {
						err := s.Leave(t.Context(), &driver.Release{Claim: a})
						if driver.OutcomeOf(err) != driver.OutcomeUnknown || errors.Is(err, driver.ErrGone) {
							t.Errorf("leave = %v; want an unknown outcome", err)
						}
					}
					if _, err := s.Enter(t.Context(), wanted("a", try)); !driver.NotApplied(err) || !driver.IsUnreachable(err) {
						t.Errorf("enter of another claim = %v; want that it has not entered", err)
					}
					f.be(answers)
					time.Sleep(time.Second)
					if err := s.Leave(t.Context(), &driver.Release{Claim: a}); !errors.Is(err, driver.ErrGone) {
						t.Errorf("leave, once that is proven, = %v; want ErrGone", err)
					}
					if n := f.owners("a"); n != 0 {
						t.Errorf("%d connections have the key of what is gone", n)
					}
					enter(t, s, wanted("a", try), true)
				})
			})
		}
	}
}

// A Leave that got no answer says that the claim is gone once that is proven.
func TestLeaveAwaitsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.client(t)
		a := wanted("a")
		enter(t, s, a, true)
		f.be(silent)
		time.AfterFunc(answerWithin+time.Second, func() { f.be(answers) })
		leave(t, s, a)
		if n := f.owners("a"); n != 0 {
			t.Errorf("%d connections have the key", n)
		}
	})
}

// A claim that waits is tried again only once a try without an answer is proven to have left nothing.
func TestWaitsThroughDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		one, two := f.client(t), f.client(t)
		a, b := wanted("a"), wanted("a")
		b.Wait = time.Hour
		enter(t, one, a, true)
		enter(t, two, b, false)
		f.be(silent)
		f.kill("a")
		time.Sleep(time.Minute)
		if n := f.owners("a"); n > 1 {
			t.Errorf("%d connections have the key", n)
		}
		f.be(answers)
		if p, err := two.Await(t.Context(), b); err != nil || !p.Holds {
			t.Errorf("await = %+v, %v; want that it holds", p, err)
		}
		if n := f.owners("a"); n != 1 {
			t.Errorf("%d connections have the key; want that of the one that holds", n)
		}
	})
}

// All claims of a connection that ends are lost at once, and their client is alerted. None is taken again in silence.
func TestLost(t *testing.T) {
	for _, killed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			s := f.client(t)
			told := make(chan []string, 1)
			s.Alert(func(ids ...string) { told <- ids })
			a, b, waits := wanted("a"), wanted("b"), wanted("b")
			waits.Wait = time.Hour
			enter(t, s, a, true)
			enter(t, s, b, true)
			enter(t, s, waits, false)
			start := time.Now()
			if killed {
				f.kill("a")
			} else {
				f.be(deaf)
			}
			lost := <-told
			slices.Sort(lost)
			if want := []string{a.ID, b.ID}; !slices.Equal(lost, want) {
				t.Errorf("%q were told to be lost; want %q", lost, want)
			}
			if took := time.Since(start); took > timeout/3+answerWithin {
				t.Errorf("they were told after %v", took)
			}
			f.be(answers)
			for _, c := range []*driver.Claim{a, b} {
				if err := renew(s, c); !errors.Is(err, driver.ErrSession) {
					t.Errorf("renewal = %v; want ErrSession", err)
				}
				if _, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrSession) {
					t.Errorf("enter = %v; want ErrSession", err)
				}
			}
			if p, err := s.Await(t.Context(), waits); err != nil || !p.Holds {
				t.Errorf("await = %+v, %v; want that what waited waits on, and holds", p, err)
			}
			if n := f.owners("a"); n != 0 {
				t.Errorf("%d connections have a key that nobody asked for again", n)
			}
		})
	}
}

// A refusal of the server ends no claim of the connection, and leaves nothing locked.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.client(t)
		a := wanted("a")
		enter(t, s, a, true)
		f.be(refuses)
		f.gate = make(chan struct{}) // nobody asks yet
		renewed := make(chan error)
		for range 2 { // so that the second one and the entry share a statement
			go func() { renewed <- renew(s, a) }()
			synctest.Wait()
		}
		entered := make(chan error)
		go func() { _, err := s.Enter(t.Context(), wanted("b")); entered <- err }()
		synctest.Wait()
		close(f.gate)
		if err := <-entered; err == nil || !driver.NotApplied(err) {
			t.Errorf("enter = %v; want that it was not applied", err)
		}
		for range 2 {
			if err := <-renewed; err != nil {
				t.Errorf("renewal beside it = %v; want nil", err)
			}
		}
		f.gate = nil
		if n := f.owners("b"); n != 0 {
			t.Errorf("%d connections have the key that was refused", n)
		}
		if err := renew(s, a); err != nil || f.owners("a") != 1 {
			t.Errorf("renewal of another claim = %v; want nil", err)
		}
		f.be(refuses)
		leave(t, s, a)
		if n := f.owners("a"); n != 0 {
			t.Errorf("%d connections have a key that was to be freed", n)
		}
	})
}

// A client that cannot connect says that nothing was sent.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.client(t)
		a := wanted("a")
		enter(t, s, a, true)
		f.kill("a")
		f.be(away)
		time.Sleep(time.Second)
		if _, err := s.Enter(t.Context(), wanted("b")); driver.OutcomeOf(err) != driver.OutcomeUnsent || !driver.IsUnreachable(err) {
			t.Errorf("enter = %v; want that it was not sent", err)
		}
		f.be(answers)
		time.Sleep(time.Second)
		enter(t, s, wanted("b"), true)
	})
}

// One that waits gives up, be it by itself or since its time is over: it is gone once nothing of it waits in the server.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		one, two := f.client(t), f.client(t)
		a, b, c := wanted("a"), wanted("a"), wanted("a")
		enter(t, one, a, true)
		enter(t, two, b, false)
		synctest.Wait()
		start := time.Now()
		leave(t, two, b)
		if took := time.Since(start); took == 0 || took > 100*time.Millisecond {
			t.Errorf("it left after %v; want once the scout is home", took)
		}
		enter(t, two, c, false)
		time.Sleep(c.Wait + 100*time.Millisecond)
		if err := renew(two, c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("renewal of what has waited for too long = %v; want ErrGone", err)
		}
		if err := renew(one, a); err != nil {
			t.Errorf("renewal of the holder = %v", err)
		}
	})
}

// A release wakes whoever waits in the server at once; the other names of that client, within the pause.
func TestWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		one, two := f.client(t), f.client(t)
		var held, waits []*driver.Claim
		for i := range 3 {
			a, b := wanted(fmt.Sprint(i)), wanted(fmt.Sprint(i))
			a.TTL, b.Wait = time.Hour, time.Hour
			enter(t, one, a, true)
			enter(t, two, b, false)
			held, waits = append(held, a), append(waits, b)
		}
		time.Sleep(time.Minute)
		for i, b := range waits {
			start := time.Now()
			if err := renew(one, held[i]); err != nil {
				t.Fatal(err)
			}
			leave(t, one, held[i])
			if p, err := two.Await(t.Context(), b); err != nil || !p.Holds {
				t.Errorf("await = %+v, %v; want that it holds", p, err)
			}
			if took := time.Since(start); took > pollEvery || i == 0 && took > 0 {
				t.Errorf("claim %d was told after %v", i, took)
			}
		}
	})
}

// Readers of one client share a key that is locked once, the last one of them frees it, and a writer of the same client is
// kept out.
func TestReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s, other := f.client(t), f.client(t)
		a, b := wanted("a", reader), wanted("a", reader)
		enter(t, s, a, true)
		enter(t, s, b, true)
		enter(t, s, wanted("a", try), false)
		leave(t, s, a)
		enter(t, other, wanted("a", try), false)
		leave(t, s, b)
		enter(t, other, wanted("a", try), true)
	})
}

// A claim is kept for its time, without any renewal, and a claim that nobody renews ends.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.client(t)
		a, b := wanted("a"), wanted("b")
		a.TTL, b.TTL = 5*time.Second, 20*time.Second
		if p := enter(t, s, a, true); p.TTL != a.TTL {
			t.Errorf("the lease is %v; want %v, however long it might have waited", p.TTL, a.TTL)
		}
		enter(t, s, b, true)
		if err := s.Leave(t.Context(), &driver.Release{Claim: b, Keep: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if f.owners("a") != 0 || f.owners("b") != 1 {
			t.Errorf("%d, %d have the keys; want 0, 1", f.owners("a"), f.owners("b"))
		}
		time.Sleep(31 * time.Second)
		if n := f.owners("b"); n != 0 {
			t.Errorf("%d have the key of what was kept", n)
		}
	})
}

// Requests that come while a statement is under way share the next one.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.client(t)
		f.gate = make(chan struct{}) // nobody else asks yet
		var all sync.WaitGroup
		for i := range 100 {
			c := wanted(fmt.Sprint(i))
			all.Go(func() {
				if p, err := s.Enter(t.Context(), c); err != nil || !p.Holds {
					t.Errorf("enter = %+v, %v; want that it holds", p, err)
				}
			})
		}
		synctest.Wait()
		close(f.gate)
		all.Wait()
		n := 0
		if err := s.order(t.Context(), func(time.Time) { n = s.home.(*fakeConn).asked }, nil); err != nil || n > 3 {
			t.Errorf("%d statements, %v; want 3 at most", n, err)
		}
	})
}

// Claims come and go without the server being asked what it promises, which may cost a request each time.
func TestPromisesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.client(t)
		for range 3 {
			c := wanted("a")
			enter(t, s, c, true)
			leave(t, s, c)
		}
		if f.mu.Lock(); f.told != 1 {
			t.Errorf("the server was asked %d times; want once", f.told)
		}
		f.mu.Unlock()
	})
}

// Whoever calls after the end, or while it comes, is told.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		one, two := f.client(t), f.client(t)
		a, b := wanted("a"), wanted("a")
		enter(t, one, a, true)
		enter(t, two, b, false)
		awaited := make(chan error, 1)
		go func() { _, err := two.Await(t.Context(), b); awaited <- err }()
		synctest.Wait()
		two.Close()
		two.Close()
		if err := <-awaited; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("await = %v; want ErrClosed", err)
		}
		if _, err := two.Enter(t.Context(), b); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("enter = %v; want ErrClosed", err)
		}
		one.Close()
		if n := f.owners("a"); n != 0 {
			t.Errorf("%d have a key after the end", n)
		}
	})
}
