package sim_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// sights are the events that an observer sees.
type sights struct {
	*world
	cancel context.CancelFunc
	done   chan struct{} // closed when the loop has ended

	mu  sync.Mutex // guards what follows
	all []string   // values of leaders, "nobody" and "error", since the last look
	err error      // the latest
}

// observe follows a name in a goroutine, until stop.
func (w *world) observe(c *stile.Client, name string) *sights {
	ctx, cancel := context.WithCancel(w.Context())
	s := &sights{world: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for l, err := range c.Observe(ctx, name) {
			s.see(l, err)
		}
	}()
	return s
}

func (s *sights) see(l stile.Leader, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.all, s.err = append(s.all, "error"), err
	case l.Leads():
		s.all = append(s.all, l.Value)
	default:
		s.all = append(s.all, "nobody")
	}
}

// saw fails unless the observer saw exactly these since the last call. No time passes.
func (s *sights) saw(want ...string) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.all, want) {
		s.Errorf("saw %q; want %q", s.all, want)
	}
	s.all = nil
}

// failed fails unless the latest error is this one.
func (s *sights) failed(want error) {
	s.Helper()
	s.saw("error")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(s.err, want) {
		s.Errorf("error %v; want %v", s.err, want)
	}
}

func (s *sights) stop() {
	s.cancel()
	<-s.done
}

func TestLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		leads := func(want string) stile.Leader {
			w.Helper()
			l, err := b.Leader(w.Context(), "x")
			if err != nil || l.Value != want || l.Leads() != (want != "") {
				w.Errorf("leader %+v, %v; want %q", l, err, want)
			}
			return l
		}
		if l := leads(""); l != (stile.Leader{}) || l.Issued(0) {
			w.Errorf("a leader of a free name: %+v", l)
		}
		first := w.lock(a.Candidate("x", "one"))
		waiting := w.inLine(w.Context(), b.Candidate("x", "two"))
		one := leads("one")
		if !one.Issued(first.Token()) || one.Issued(first.Token()-1) || one.Issued(0) || one.Holder.PID == 0 {
			w.Errorf("the first leader %+v has not token %d", one, first.Token())
		}
		w.unlock(first)
		second := w.got(waiting)
		if two := leads("two"); !two.Issued(second.Token()) || two.Issued(first.Token()) || one.Issued(second.Token()) {
			w.Errorf("leaders %+v and %+v have tokens %d and %d", one, two, first.Token(), second.Token())
		}
		if err := second.UnlockAfter(time.Minute); err != nil {
			w.Error(err)
		}
		leads("") // it resigned, and the name stays taken
		pass(time.Minute)
		for _, l := range []*stile.Lock{a.Reader("x"), a.Permit("x", 2, 2)} {
			lease := w.lock(l)
			leads("")
			w.unlock(lease)
		}
		if _, err := b.Leader(w.Context(), ""); !errors.Is(err, stile.ErrInvalid) {
			w.Errorf("no name: %v; want ErrInvalid", err)
		}
	})
}

func TestNobodyLeadsWhileTheLockDelayLasts(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.join(nil)
		s := w.observe(b.Client, "x")
		s.saw("nobody")
		d := w.store.Driver()
		_, err := d.Enter(w.Context(), &driver.Claim{
			Name: "x", ID: "1", Weight: driver.All, Capacity: driver.All, Record: `{"program":"p","value":"one"}`,
			TTL: time.Second, Wait: time.Second, Delay: time.Minute,
		})
		if err != nil {
			w.Fatal(err)
		}
		s.saw("one")
		pass(time.Second)
		s.saw("nobody")
		pass(time.Minute)
		s.saw()
		s.stop()
	})
}

func TestObserveYieldsEveryLeader(t *testing.T) {
	for name, pushes := range map[string]bool{"pushed": true, "polled": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.join(nil), w.join(nil)
				var d driver.Driver = w.store.Driver()
				if !pushes {
					d = noWatcher{d, d.(driver.Lister)}
				}
				c, err := stile.New(d, nil)
				if err != nil {
					w.Fatal(err)
				}
				defer c.Close()
				soon := func() {
					if !pushes {
						pass(time.Second)
					}
				}
				s := w.observe(c, "x")
				s.saw("nobody")
				first := w.lock(a.Candidate("x", "one"))
				soon()
				s.saw("one")
				waiting := w.inLine(w.Context(), b.Candidate("x", "two"))
				ctx, cancel := context.WithCancel(w.Context())
				gaveUp := w.inLine(ctx, a.Candidate("x", "three"))
				cancel()
				<-gaveUp
				pass(time.Minute)
				s.saw() // neither waiters nor renewals are a change
				w.unlock(first)
				second := w.got(waiting)
				soon()
				s.saw("two")
				w.unlock(second)
				soon()
				s.saw("nobody")
				w.lock(a.Candidate("x", "one"))
				soon()
				s.saw("one")
				for range 2 { // elected again, each time with another token
					if _, err := w.store.Driver().Steal("x", time.Minute); err != nil {
						w.Error(err)
					}
					soon()
					s.saw("thief")
				}
				s.stop()
			})
		})
	}
}

// Observe polls a store that does not push. It asks a store that pushes after a change, and twice a minute, since the store
// may stop pushing without an error.
func TestObserveHardlyAsksAStoreThatPushes(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		s := w.observe(b.Client, "x")
		s.saw("nobody")
		lease := w.lock(a.Candidate("x", "one"))
		s.saw("one")
		before := b.d.Calls("")
		pass(time.Hour)
		if n := b.d.Calls("") - before; n < 100 || n > 120 {
			w.Errorf("%d calls in an hour in which nothing changed; want one each 30 s", n)
		}
		w.unlock(lease)
		s.saw("nobody")
		s.stop()
	})
}

func TestObserveOutlivesAnOutage(t *testing.T) {
	away := driver.Unreachable(errors.New("away"))
	for name, faults := range map[string][]memory.Fault{
		"looks":           {{Verb: memory.List, Times: 20, Err: away}},
		"watch":           {{Verb: memory.Watch, Times: 20, Err: away}},
		"nothing is sent": {{Verb: memory.List, Times: 20, Err: driver.Refused(away)}},
		"both":            {{Verb: memory.Watch, Times: 10, Err: away}, {Verb: memory.List, Times: 10, Err: driver.Refused(away)}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.join(nil), w.join(nil)
				w.lock(a.Candidate("x", "one"))
				for _, f := range faults {
					b.d.Inject(f)
				}
				s := w.observe(b.Client, "x")
				s.failed(stile.ErrUnreachable)
				pass(2 * time.Second)
				s.saw() // the observer gets it once
				pass(time.Minute)
				s.saw("one")
				s.stop()
			})
		})
	}
}

func TestObserveEndsWithAnErrorThatWillNotPass(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		s := w.observe(a.Client, "")
		<-s.done
		s.failed(stile.ErrInvalid)
		blind, err := stile.New(struct{ driver.Driver }{w.store.Driver()}, nil)
		if err != nil {
			w.Fatal(err)
		}
		s = w.observe(blind, "x")
		<-s.done
		s.failed(stile.ErrUnsupported)
		if err := blind.Close(); err != nil {
			w.Error(err)
		}
		s = w.observe(a.Client, "x")
		s.saw("nobody")
		if err := a.Close(); err != nil {
			w.Error(err)
		}
		<-s.done
		s.failed(stile.ErrClosed)
	})
}

// A lingering driver ends a watch with a delay.
type lingering struct {
	*memory.Driver
	watches atomic.Int64
}

func (d *lingering) Watch(ctx context.Context, name string, changed func()) error {
	d.watches.Add(1)
	defer d.watches.Add(-1)
	err := d.Driver.Watch(ctx, name, changed)
	<-time.After(time.Second)
	return err
}

// The end of the loop leaves nothing of the watch.
func TestALoopOverLeadersCanBeLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		d := &lingering{Driver: w.store.Driver()}
		a, err := stile.New(d, nil)
		if err != nil {
			w.Fatal(err)
		}
		defer a.Close()
		n := 0
		for _, err := range a.Observe(w.Context(), "x") {
			if n++; err != nil {
				w.Error(err)
			}
			break
		}
		for _, err := range a.Watch(w.Context(), "x") {
			if n++; err != nil {
				w.Error(err)
			}
			break
		}
		if left := d.watches.Load(); n != 2 || left != 0 {
			w.Errorf("%d rounds, %d watches left; want 2 and none", n, left)
		}
	})
}

// The observer shows a record of another program unchanged if it is text.
func TestForeignLeader(t *testing.T) {
	for record, want := range map[string]string{
		"10.0.0.7:80":                           "10.0.0.7:80",
		`{"address":"10.0.0.7"}`:                `{"address":"10.0.0.7"}`,
		`{"host":"b","pid":3}`:                  `{"host":"b","pid":3}`,
		"42":                                    "42",
		"null":                                  "null",
		"a\x00b":                                "",
		"a\nb":                                  "",
		"\xff\xfe":                              "",
		"\u202eb":                               "",
		"":                                      "",
		`{"program":"stile","value":"one"}`:     "one",
		`{"owner":"me","value":"one","new":{}}`: "one",
	} {
		inWorld(t, func(w *world) {
			a := w.join(nil)
			c := &driver.Claim{Name: "x", ID: "1", Weight: driver.All, Capacity: driver.All, TTL: time.Second, Wait: time.Second, Record: record}
			if _, err := w.store.Driver().Enter(w.Context(), c); err != nil {
				w.Fatal(err)
			}
			if l, err := a.Leader(w.Context(), "x"); err != nil || !l.Leads() || l.Value != want {
				w.Errorf("record %q: %+v, %v; want value %q", record, l, err, want)
			}
		})
	}
}

// Do lasts for a whole term: a leader whose claim an administrator removes learns of it, and may stand again, behind the
// others.
func TestATermEndsWithTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		s := w.observe(b.Client, "x")
		s.saw("nobody")
		terms := make(chan error)
		var tokens []int64
		go func() {
			for range 2 {
				terms <- a.Candidate("x", "one").Do(w.Context(), func(ctx context.Context) error {
					tokens = append(tokens, stile.FromContext(ctx).Token())
					<-ctx.Done()
					return context.Cause(ctx)
				})
			}
		}()
		synctest.Wait()
		waiting := w.inLine(w.Context(), b.Candidate("x", "two"))
		s.saw("one")
		if _, err := b.Break(w.Context(), "x", stile.BreakOptions{Head: true}); err != nil {
			w.Error(err)
		}
		other := w.got(waiting)
		s.saw("two")
		if err := <-terms; !errors.Is(err, stile.ErrLost) {
			w.Errorf("the first term ended with %v; want ErrLost", err)
		}
		synctest.Wait()
		w.unlock(other)
		s.saw("one")
		if len(tokens) != 2 || tokens[0] >= other.Token() || other.Token() >= tokens[1] {
			w.Errorf("tokens %v around %d", tokens, other.Token())
		}
		if err := a.Close(); err != nil {
			w.Error(err)
		}
		if err := <-terms; !errors.Is(err, stile.ErrLost) {
			w.Errorf("the second term ended with %v; want ErrLost", err)
		}
		s.stop()
	})
}
