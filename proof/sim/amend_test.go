package sim_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

func TestDowngrade(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Writer("x"))
		reader, here := w.inLine(w.Context(), b.Reader("x")), w.inLine(w.Context(), a.Reader("x"))
		writer := w.inLine(w.Context(), b.Writer("x"))
		last := w.inLine(w.Context(), b.Reader("x").With(stile.LockOptions{Reason: "last"}))
		token := lease.Token()
		for range 2 { // the second time the lease is already a reader's
			if err := lease.Downgrade(w.Context()); err != nil {
				w.Fatalf("downgrade: %v", err)
			}
		}
		first, second := w.got(reader), w.got(here)
		w.waits(writer)
		w.waits(last)
		if err := lease.Check(); err != nil || lease.Token() != token {
			w.Errorf("the lease: %v, token %d; want token %d", err, lease.Token(), token)
		}
		pass(time.Minute) // the client renews it
		w.unlock(first)
		w.unlock(second)
		w.waits(writer)
		w.unlock(lease)
		w.unlock(w.got(writer))
		w.unlock(w.got(last))
	})
}

// The store may have let readers in, whatever it answered: the lease becomes a reader's, and the client asks the store
// again.
func TestDowngradeThatIsNotAnswered(t *testing.T) {
	for name, fault := range map[string]memory.Fault{
		"request lost": {Verb: memory.Renew, Drop: true},
		"answer lost":  {Verb: memory.Renew, Lose: true},
		"no answer":    {Verb: memory.Renew, Hang: true, Lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.join(nil), w.join(nil)
				lease := w.lock(a.Writer("x"))
				reader := w.inLine(w.Context(), b.Reader("x"))
				a.d.Inject(fault)
				if err := lease.Downgrade(w.Context()); err != nil {
					w.Errorf("downgrade: %v; want the store to be asked again", err)
				}
				w.unlock(w.got(reader))
				w.unlock(lease)
			})
		})
	}
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Writer("x").With(stile.LockOptions{Reentrant: true}))
		reader := w.inLine(w.Context(), b.Reader("x"))
		a.d.SetLink(memory.Silent)
		ctx, cancel := context.WithCancelCause(w.Context())
		cause := errors.New("enough")
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if err := lease.Downgrade(ctx); !errors.Is(err, cause) {
			w.Errorf("downgrade = %v; want the context's cause", err)
		}
		if _, err := a.Writer("x").With(stile.LockOptions{Reentrant: true}).Lock(lease.Context()); !errors.Is(err, stile.ErrReentrant) {
			w.Errorf("writing inside = %v; want ErrReentrant, since the lease is a reader's", err)
		}
		w.waits(reader)
		a.d.Heal()
		pass(5 * time.Second) // less than the lease: the client asks the store until it answers
		w.unlock(w.got(reader))
		if err := lease.Downgrade(w.Context()); err != nil {
			w.Errorf("downgrade once more: %v", err)
		}
		w.unlock(lease)
	})
}

func TestAmendRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		writer := a.Writer("1").With(stile.LockOptions{Reentrant: true})
		outer := w.lock(writer)
		inner, err := writer.Lock(outer.Context())
		if err != nil {
			w.Fatal(err)
		}
		joined, permit, reader := w.lock(stile.Join(a.Mutex("2"), a.Mutex("3"))), w.lock(a.Permit("4", 2, 3)), w.lock(a.Reader("5"))
		released := w.lock(a.Mutex("6"))
		w.unlock(released)
		other := &unamending{memory.NewStore().Driver()}
		client, err := stile.New(other, nil)
		if err != nil {
			w.Fatal(err)
		}
		defer client.Close()
		plain := w.lock(client.Writer("7"))
		var none *stile.Lease
		long := make([]byte, driver.MaxRecord)
		tests := []struct {
			what string
			err  error
			want error
		}{
			{"downgrade of a lease that is re-entered", outer.Downgrade(w.Context()), stile.ErrUnsupported},
			{"downgrade of a joined lock", joined.Downgrade(w.Context()), stile.ErrUnsupported},
			{"downgrade of permits", permit.Downgrade(w.Context()), stile.ErrUnsupported},
			{"downgrade of a reader", reader.Downgrade(w.Context()), nil},
			{"downgrade of a lease that was released", released.Downgrade(w.Context()), stile.ErrReleased},
			{"downgrade where the store has none", plain.Downgrade(w.Context()), stile.ErrUnsupported},
			{"downgrade of no lease", none.Downgrade(w.Context()), stile.ErrInvalid},
			{"downgrade without a context", reader.Downgrade(nil), stile.ErrInvalid}, //nolint:staticcheck // that is the case
			{"a reader that proclaims", reader.Proclaim(w.Context(), "v"), stile.ErrUnsupported},
			{"permits that proclaim", permit.Proclaim(w.Context(), "v"), stile.ErrUnsupported},
			{"a value that is too long", outer.Proclaim(w.Context(), string(long)), stile.ErrInvalid},
			{"a value under a lease that is re-entered", inner.Proclaim(w.Context(), "v"), nil},
		}
		for _, test := range tests {
			if !errors.Is(test.err, test.want) || (test.err == nil) != (test.want == nil) {
				w.Errorf("%s: %v; want %v", test.what, test.err, test.want)
			}
		}
		for _, l := range []*stile.Lease{inner, outer, joined, permit, reader, plain} {
			w.unlock(l)
		}
	})
}

// unamending is a store that cannot change a claim that holds.
type unamending struct{ *memory.Driver }

func (u *unamending) Traits() driver.Traits {
	t := u.Driver.Traits()
	t.Amends = false
	return t
}

func TestProclaim(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Candidate("x", "one").With(stile.LockOptions{Owner: "job", Reason: "why", Linger: time.Second}))
		var (
			mu   sync.Mutex
			seen []string
		)
		ctx, cancel := context.WithCancel(w.Context())
		go func() {
			for leader, err := range b.Observe(ctx, "x") {
				if err == nil {
					mu.Lock()
					seen = append(seen, leader.Value)
					mu.Unlock()
				}
			}
		}()
		synctest.Wait()
		for _, value := range []string{"two", "two", "three", ""} {
			if err := lease.Proclaim(w.Context(), value); err != nil {
				w.Fatalf("proclaim: %v", err)
			}
			synctest.Wait()
			leader, err := b.Leader(w.Context(), "x")
			if err != nil || leader.Value != value || !leader.Issued(lease.Token()) {
				w.Errorf("the leader is %+v, %v; want value %q, and token %d issued by it", leader, err, value, lease.Token())
			}
			if h := leader.Holder; h.Owner != "job" || h.Reason != "why" {
				w.Errorf("the leader is %+v; want owner and reason as they were", h)
			}
		}
		cancel()
		synctest.Wait()
		mu.Lock()
		if got := len(seen); got != 4 || seen[0] != "one" || seen[1] != "two" || seen[2] != "three" || seen[3] != "" {
			w.Errorf("observed %q; want each value once", seen)
		}
		mu.Unlock()
		w.unlock(lease)
		if n := w.queued("x"); n != 0 {
			w.Errorf("%d claims linger; want none, since the next candidate here stands for another value", n)
		}
	})
}

// An older change that arrives after a later one does not undo it.
func TestProclaimLate(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lease := w.lock(a.Candidate("x", "one"))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Before: 20 * time.Second, Late: true})
		for _, value := range []string{"two", "one"} {
			if err := lease.Proclaim(w.Context(), value); err != nil {
				w.Fatalf("proclaim %q: %v", value, err)
			}
		}
		pass(30 * time.Second)
		if leader, err := b.Leader(w.Context(), "x"); err != nil || leader.Value != "one" {
			w.Errorf("the leader is %+v, %v; want the value that was proclaimed last", leader, err)
		}
		w.unlock(lease)
	})
}

// A leader that was restarted goes on with its term.
func TestProclaimAfterAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.join(nil), w.join(nil), w.join(nil)
		lease := w.lock(a.Candidate("x", "one").With(stile.LockOptions{Owner: "job"}))
		next := w.inLine(w.Context(), c.Candidate("x", "other"))
		if err := lease.Proclaim(w.Context(), "two"); err != nil {
			w.Fatalf("proclaim: %v", err)
		}
		handle, err := lease.Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		again, err := b.Attach(w.Context(), handle)
		if err != nil {
			w.Fatal(err)
		}
		for _, value := range []string{"three", "four"} {
			if err := again.Proclaim(w.Context(), value); err != nil {
				w.Fatalf("proclaim: %v", err)
			}
			leader, err := c.Leader(w.Context(), "x")
			if err != nil || leader.Value != value || leader.Holder.Owner != "job" || !leader.Issued(lease.Token()) {
				w.Errorf("the leader is %+v, %v; want value %q and token %d issued by it", leader, err, value, lease.Token())
			}
		}
		w.waits(next)
		w.unlock(again)
		w.unlock(w.got(next))
	})
}

func TestProclaimManyAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		lease := w.lock(a.Candidate("x", "none"))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Times: 3, Lose: true})
		var all sync.WaitGroup
		for _, value := range []string{"1", "2", "3"} {
			all.Go(func() {
				if err := lease.Proclaim(w.Context(), value); err != nil {
					w.Errorf("proclaim %s: %v", value, err)
				}
			})
		}
		all.Wait()
		if leader, err := a.Leader(w.Context(), "x"); err != nil || leader.Value == "none" {
			w.Errorf("the leader is %+v, %v; want one of the values", leader, err)
		}
		w.unlock(lease)
	})
}

// A change of a lease that ends meanwhile returns the reason of the end.
func TestAmendOfALeaseThatEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		for name, test := range map[string]struct {
			end  func(l *stile.Lease)
			want error
		}{
			"released": {func(l *stile.Lease) { a.d.Heal(); w.unlock(l) }, stile.ErrReleased},
			"lost":     {func(*stile.Lease) { pass(time.Minute); a.d.Heal() }, stile.ErrLost},
		} {
			lease := w.lock(a.Writer("x-" + name))
			a.d.SetLink(memory.Silent)
			ended := make(chan error, 1)
			go func() { ended <- lease.Downgrade(context.Background()) }()
			synctest.Wait()
			test.end(lease)
			if err := <-ended; !errors.Is(err, test.want) {
				w.Errorf("%s: downgrade = %v; want %v", name, err, test.want)
			}
			if err := lease.Unlock(); !errors.Is(err, test.want) {
				w.Errorf("%s: unlock = %v; want %v", name, err, test.want)
			}
		}
	})
}
