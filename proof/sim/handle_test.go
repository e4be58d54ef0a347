package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/store/memory"
)

func TestDetachAndAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.join(nil), w.join(nil), w.join(nil)
		lease := w.lock(a.Mutex("x").With(stile.LockOptions{TTL: time.Minute, LockDelay: time.Second}))
		ctx := lease.Context()
		pass(10 * time.Second)
		handle, err := lease.Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if ctx.Err() == nil || !errors.Is(lease.Check(), stile.ErrReleased) || !errors.Is(lease.Unlock(), stile.ErrReleased) {
			w.Error("a detached lease is not over")
		}
		if err := a.Close(); err != nil {
			w.Fatal(err)
		}
		pass(59 * time.Second) // its whole ttl counts from then, and no client renews
		if n := w.queued("x"); n != 1 {
			w.Fatalf("%d claims; want the detached one", n)
		}
		again, err := b.Attach(w.Context(), handle)
		if err != nil {
			w.Fatal(err)
		}
		if again.Token() != lease.Token() || again.Name() != "x" {
			w.Errorf("token %d, %q; want what it was, %d", again.Token(), again.Name(), lease.Token())
		}
		waiting := w.inLine(w.Context(), c.Mutex("x"))
		pass(10 * time.Minute)
		if err := again.Check(); err != nil {
			w.Errorf("an attached lease is not renewed: %v", err)
		}
		w.waits(waiting)
		w.unlock(again)
		w.unlock(w.got(waiting))
		if _, err := b.Attach(w.Context(), handle); !errors.Is(err, stile.ErrLost) {
			w.Errorf("attaching what was released: %v; want ErrLost", err)
		}
	})
}

func TestDetachRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		joined := w.lock(stile.Join(a.Mutex("1"), a.Mutex("2")))
		if _, err := joined.Detach(w.Context()); !errors.Is(err, stile.ErrUnsupported) {
			w.Errorf("a joined lock: %v; want ErrUnsupported", err)
		}
		w.unlock(joined)
		r1, r2 := w.lock(a.Reader("x")), w.lock(a.Reader("x"))
		if _, err := r1.Detach(w.Context()); !errors.Is(err, stile.ErrUnsupported) {
			w.Errorf("a shared claim: %v; want ErrUnsupported", err)
		}
		w.unlock(r1)
		w.unlock(r2)
		lease := w.lock(a.Mutex("x"))
		if _, err := a.d.Steal("x", time.Second); err != nil {
			w.Fatal(err)
		}
		if _, err := lease.Detach(w.Context()); !errors.Is(err, stile.ErrLost) {
			w.Errorf("a lost lease: %v; want ErrLost", err)
		}
		w.unlockLost(lease)
		lease = w.lock(a.Mutex("y"))
		a.d.Inject(memory.Fault{Verb: memory.Renew, Err: errors.New("not now")})
		if _, err := lease.Detach(w.Context()); err == nil || lease.Check() != nil {
			w.Errorf("a renewal that fails: %v, and the lease: %v; want an error, and to keep it", err, lease.Check())
		}
		pass(time.Minute)
		if err := lease.Check(); err != nil {
			w.Errorf("it is no longer renewed: %v", err)
		}
		w.unlock(lease)
	})
}

func TestAttachRefusesWhatDetachDidNotMake(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		good := stile.Handle{Name: "x", ID: "id", Weight: 1, Capacity: 1, Ticket: engine.Turns, Token: engine.Turns, TTL: time.Second}
		for name, spoil := range map[string]func(*stile.Handle){
			"no name":   func(h *stile.Handle) { h.Name = "" },
			"no id":     func(h *stile.Handle) { h.ID = "" },
			"no ticket": func(h *stile.Handle) { h.Ticket = 0 },
			"another's": func(h *stile.Handle) { h.Token++ },
			"no weight": func(h *stile.Handle) { h.Weight = 0 },
			"too heavy": func(h *stile.Handle) { h.Weight = 2 },
			"no ttl":    func(h *stile.Handle) { h.TTL = 0 },
		} {
			h := good
			spoil(&h)
			if _, err := a.Attach(w.Context(), h); !errors.Is(err, stile.ErrInvalid) {
				w.Errorf("%s: %v; want ErrInvalid", name, err)
			}
		}
		if _, err := a.Attach(w.Context(), good); !errors.Is(err, stile.ErrLost) {
			w.Errorf("a claim that is not there: %v; want ErrLost", err)
		}
	})
}

// A client does not leave a claim to another process while a request for it may still arrive: the claim could come back
// after its end, with a token that is no longer the largest.
func TestDetachRefusesWhatMayComeBack(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.join(nil)
		a.d.Inject(memory.Fault{Verb: memory.Enter, Lose: true})
		lease := w.lock(a.Mutex("x"))
		if _, err := lease.Detach(w.Context()); err == nil || lease.Check() != nil {
			w.Errorf("detach: %v, and the lease: %v; want an error, and to keep it", err, lease.Check())
		}
		w.unlock(lease)
		lease = w.lock(a.Mutex("x"))
		if _, err := lease.Detach(w.Context()); err != nil {
			w.Errorf("detach of a claim whose requests were answered: %v", err)
		}
	})
}

// A leader that dies continues its term with the handle that it kept.
func TestHandleAfterACrash(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.join(nil), w.join(nil), w.join(nil)
		lease := w.lock(a.Candidate("x", "one").With(stile.LockOptions{TTL: time.Minute, Linger: time.Second}))
		handle, err := lease.Handle()
		if err != nil {
			w.Fatal(err)
		}
		here, next := w.inLine(w.Context(), a.Candidate("x", "one").With(stile.LockOptions{TTL: time.Minute})), w.inLine(w.Context(), c.Candidate("x", "other"))
		pass(10 * time.Minute) // the client renews it
		if err := lease.Check(); err != nil {
			w.Fatalf("the lease: %v; want it to go on", err)
		}
		a.d.SetLink(memory.Silent) // the leader dies
		again, err := b.Attach(w.Context(), handle)
		if err != nil || again.Token() != lease.Token() {
			w.Fatalf("attach: %v, %v; want token %d", again, err, lease.Token())
		}
		if err := again.Proclaim(w.Context(), "two"); err != nil {
			w.Errorf("proclaim: %v", err)
		}
		w.waits(next)
		pass(10 * time.Minute)
		w.unlock(again)
		w.unlock(w.got(next))
		if r := <-here; r.err == nil {
			w.Errorf("the dead process got a lease: %v", r.Lease)
		}
	})
}

// Handle ends the turns of a claim, so that no turn with a larger token comes before the handle's smaller one.
func TestHandleEndsTheTurns(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		lock := a.Mutex("x").With(stile.LockOptions{Reentrant: true})
		lease := w.lock(lock)
		inner, err := lock.Lock(lease.Context())
		if err != nil {
			w.Fatal(err)
		}
		if _, err := lease.Handle(); !errors.Is(err, stile.ErrUnsupported) {
			w.Errorf("the handle of a lease that was re-entered: %v; want ErrUnsupported", err)
		}
		w.unlock(inner)
		handle, err := lease.Handle()
		if err != nil {
			w.Fatal(err)
		}
		next := w.inLine(w.Context(), lock)
		w.unlock(lease)
		after := w.got(next)
		if _, err := b.Attach(w.Context(), handle); !errors.Is(err, stile.ErrLost) {
			w.Errorf("attaching what was released: %v; want ErrLost", err)
		}
		if after.Token() <= handle.Token || after.Token()/1024 == handle.Token/1024 {
			w.Errorf("token %d after %d; want that of another claim", after.Token(), handle.Token)
		}
		w.unlock(after)
		if _, err := after.Handle(); !errors.Is(err, stile.ErrReleased) {
			w.Errorf("the handle of what was released: %v; want ErrReleased", err)
		}
	})
}
