package memcached

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// calls returns all calls of a driver for a claim.
func calls(d store, c *driver.Claim) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"enter": func(ctx context.Context) error { _, err := d.Enter(ctx, c); return err },
		"renew": func(ctx context.Context) error { return d.Renew(ctx, []*driver.Claim{c})[0].Err },
		"leave": func(ctx context.Context) error { return d.Leave(ctx, &driver.Release{Claim: c}) },
		"list":  func(ctx context.Context) error { _, err := d.List(ctx, &driver.Query{Name: c.Name}); return err },
		"break": func(ctx context.Context) error {
			_, err := d.Break(ctx, &driver.BreakRequest{Name: c.Name})
			return err
		},
		"names": func(ctx context.Context) error { _, err := d.List(ctx, &driver.Query{Prefix: c.Name}); return err },
	}
}

// A server that hangs answers nothing. A call still ends with its context, and its error is no refusal.
func TestServerHangs(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		proxy := servertest.NewProxy(t, s.Addr)
		d := open(t, proxy.Addr, parameters)
		for verb, call := range calls(d, claim("name", "x")) {
			holds(t, d, claim("name", verb))
			proxy.Freeze(true, true)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- call(ctx) }()
			servertest.Until(t, verb+" is under way", proxy.Holds)
			select {
			case err := <-ended:
				t.Errorf("%s ended with %v while the server hangs", verb, err)
			default:
			}
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s = %v; want the context's error", verb, err)
				}
				if driver.OutcomeOf(err) == driver.OutcomeRefused { // unsent is right if a read came before the change
					t.Errorf("%s = %v; want no word of the server's", verb, err)
				}
			case <-awake.For(time.Minute):
				t.Fatalf("%s outlives its context", verb)
			}
			proxy.Freeze(false, false)
			servertest.Until(t, "the name is free", func() bool {
				_, err := d.Break(timely(t), &driver.BreakRequest{Name: "name"})
				return errors.Is(err, driver.ErrGone)
			})
		}
	})
}

// A connection that has hung for too long is given up, for any waiting call and any deadline.
func TestHangingConnectionIsGivenUp(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		proxy := servertest.NewProxy(t, s.Addr)
		lane := awake.Lane(t)
		d := open(t, proxy.Addr, parameters)
		c := claim("name", "a")
		holds(t, d, c)
		proxy.Freeze(false, true)
		start := time.Now()
		err := renew(t, d, c)
		took := time.Since(start)
		if took < patience/2 {
			t.Errorf("renewal took %v; want about %v", took, patience)
		}
		lane.Within(took, 2*patience, "the end of a renewal on a connection that hangs")
		if !driver.IsUnreachable(err) || driver.OutcomeOf(err) == driver.OutcomeRefused {
			t.Errorf("renewal = %v, %v; want that the server cannot be reached", err, driver.OutcomeOf(err))
		}
		says(t, err, "broke before the answer came")
		proxy.Mend()
		servertest.Until(t, "another connection works", func() bool { return renew(t, d, c) == nil })
	})
}

// The server has applied a request, and the answer is lost. The same request again finds one claim.
func TestLostReplies(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		proxy := servertest.NewProxy(t, s.Addr)
		d, other := open(t, proxy.Addr, parameters), open(t, s.Addr, parameters)
		c := claim("name", "a")
		// losing makes a call, waits until the server has applied it, and loses the answer.
		losing := func(what string, call func(ctx context.Context) error, done func([]driver.Listing) bool) {
			t.Helper()
			proxy.Freeze(false, true)
			ended := make(chan error, 1)
			go func() { ended <- call(timely(t)) }()
			servertest.Until(t, what+" is done", func() bool {
				list, err := other.List(timely(t), &driver.Query{Name: "name"})
				return err == nil && done(list)
			})
			proxy.Drop()
			err := <-ended
			marks(t, err, false, true)
		}
		verbs := calls(d, c)
		losing("enter", verbs["enter"], func(l []driver.Listing) bool { return len(l) == 1 && l[0].Claims[0].Record == c.Record })
		var place driver.Place
		servertest.Until(t, "the claim is found", func() bool {
			var err error
			place, err = d.Enter(timely(t), c)
			return err == nil
		})
		if !place.Holds || place.Ahead != 0 {
			t.Errorf("enter the second time = %+v; want the one claim, which holds", place)
		}
		c.Ticket = place.Ticket
		if d.Traits().Ordered { // only the answer shows that layout plain deletes a key
			losing("leave", verbs["leave"], func(l []driver.Listing) bool { return len(l) == 0 })
			servertest.Until(t, "the claim is known to be gone", func() bool { return errors.Is(leave(t, d, c), driver.ErrGone) })
		} else if err := leave(t, d, c); err != nil {
			t.Errorf("leave = %v", err)
		}
		holds(t, other, claim("name", "next"))
	})
}

// A connection that is cut is made again, and a waiting claim does not notice.
func TestCutWhileWaiting(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	proxy := servertest.NewProxy(t, s.Addr)
	d, other := open(t, proxy.Addr, ""), open(t, s.Addr, "")
	held, waiting := claim("name", "held"), claim("name", "waiting")
	holds(t, other, held)
	waits(t, d, waiting)
	looked := counters(s)["get_hits"]
	told := make(chan driver.Place, 1)
	go func() {
		p, err := d.Await(timely(t), waiting)
		if err != nil {
			t.Errorf("await = %v", err)
		}
		told <- p
	}()
	servertest.Until(t, "somebody waits", func() bool { return counters(s)["get_hits"] > looked })
	proxy.Drop()
	if err := leave(t, other, held); err != nil {
		t.Fatal(err)
	}
	if p := <-told; !p.Holds || p.Ticket != waiting.Ticket {
		t.Errorf("await = %+v; want the claim to hold with ticket %d", p, waiting.Ticket)
	}
}

// An unreachable server's calls fail at once for a while, and then the client tries again.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	proxy := servertest.NewProxy(t, s.Addr)
	lane := awake.Lane(t)
	d := open(t, proxy.Addr, "")
	proxy.Cut()
	var err error
	servertest.Until(t, "there is no connection", func() bool {
		_, err = d.Enter(timely(t), claim("name", "a"))
		return driver.NotApplied(err)
	})
	marks(t, err, true, true)
	start := time.Now()
	for range 100 {
		if _, err := d.Enter(timely(t), claim("name", "a")); err == nil {
			t.Fatal("a claim entered through a connection that is cut")
		}
	}
	lane.Within(time.Since(start), 5*time.Second, "100 calls, most of which are refused at once,")
	proxy.Mend()
	servertest.Until(t, "the server is found again", func() bool {
		p, err := d.Enter(timely(t), claim("name", "a"))
		return err == nil && p.Holds
	})
}

// Closing ends the calls under way.
func TestCloseEndsCalls(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		proxy := servertest.NewProxy(t, s.Addr)
		d := open(t, proxy.Addr, parameters)
		proxy.Freeze(true, true)
		ended := make(chan error, 1)
		go func() {
			_, err := d.Enter(timely(t), claim("name", "a"))
			ended <- err
		}()
		servertest.Until(t, "the request is under way", proxy.Holds)
		d.Close()
		err := <-ended
		says(t, err, "closed while memcached had the request")
		marks(t, err, false, false)
		if err := renew(t, d, claim("name", "a")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("renewal after close = %v; want ErrClosed", err)
		}
	})
}

// A batch of any size has a bounded number of renewals under way.
func TestLargeBatchOfRenewals(t *testing.T) {
	s := servertest.Memcached(t)
	for layout, parameters := range layouts {
		t.Run(layout, func(t *testing.T) { // nothing else runs beside it
			proxy := servertest.NewProxy(t, s.Addr)
			d := open(t, proxy.Addr, parameters)
			batch := make([]*driver.Claim, 3000)
			for i := range batch {
				batch[i] = claim(fmt.Sprint("batch ", i), "a")
			}
			proxy.Freeze(true, true)
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			answered := make(chan []driver.Renewal, 1)
			go func() { answered <- d.Renew(ctx, batch) }()
			servertest.Until(t, "renewals are under way", proxy.Holds)
			most := 0
			for range 1000 {
				most = max(most, runtime.NumGoroutine()-before)
				runtime.Gosched()
			}
			if most > 1000 {
				t.Errorf("%d goroutines renew %d claims; want a few hundred", most, len(batch))
			}
			cancel()
			proxy.Freeze(false, false)
			if got := <-answered; len(got) != len(batch) {
				t.Errorf("%d answers; want %d", len(got), len(batch))
			}
		})
	}
}

// An asking context calls its owner whenever somebody checks whether it has ended.
type asking struct {
	context.Context
	does func()
}

func (a asking) Err() error { a.does(); return a.Context.Err() }

// The methods of a caller's context may do anything, even call over the same connection.
func TestContextThatCalls(t *testing.T) {
	t.Parallel()
	s := newScripted(t, time.Second) // an early call is read by its caller, whose context is then checked
	var sent, asked atomic.Bool
	made := make(chan error, 1)
	ended := s.ask(asking{t.Context(), func() {
		if sent.Load() && asked.CompareAndSwap(false, true) {
			_, err := s.c.do(timely(t), []byte("of the context\r\n"), 1)
			made <- err
		}
	}}, "with the context", 1)
	sent.Store(true)
	s.sock.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := s.in.ReadString('\n'); err != nil || got != "of the context\r\n" {
		t.Fatalf("the server got %q, %v; want the call of the context", got, err)
	}
	s.answer("STORED\r\nSTORED\r\n")
	if got := <-ended; got != "STORED " {
		t.Errorf("the call with the context ended with %q; want that it is stored", got)
	}
	if err := <-made; err != nil {
		t.Errorf("the call of the context: %v", err)
	}
}
