package drivertest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
)

// A Detour is a client of the store whose requests, and the answers to them, can be delayed and lost on their way.
type Detour struct {
	driver.Driver // closed by the suite
	Way
}

// A Way stands between a client and its store.
type Way interface {
	Hold(after int) // after this many more messages, requests that change the store are held up
	Pass()          // later requests arrive again; the held ones do not yet
	Held() int      // how many messages are held up
	Arrive()        // the held ones arrive, and nobody gets their answers

	Freeze(requests, answers bool) // from now on, requests do not arrive, or arrive and are not answered
	Drop()                         // the messages that Freeze kept back are lost; later requests arrive and are answered
}

// detour opens a client with a way of trouble: the store's own, or one on which whole calls are delayed and lost.
func (s *Store) detour(t testing.TB) *Detour {
	var on *Detour
	if s.Detour != nil {
		on = s.Detour(t)
	} else {
		on = lateCalls(s.Open(t))
	}
	t.Cleanup(func() {
		on.Drop()
		on.Pass()
		on.Arrive()
		on.Close()
	})
	return on
}

// lateCalls makes a detour of whole calls: a call that is held up is made later, without its caller's context.
func lateCalls(d driver.Driver) *Detour {
	late := &lateDriver{Driver: d}
	return &Detour{late, &late.way}
}

// A CallWay is a way that delays and loses whole calls, for stores without separate messages.
type CallWay struct {
	mu    sync.Mutex // guards the fields below
	state wayState
	after int           // calls that pass before the first that is delayed
	over  chan struct{} // closed when the state ends, unless it is passes
	held  []func()
}

// errBroke is the error of callers that still wait when the trouble is over.
var errBroke = errors.New("the connection broke")

// A wayState is the fate of a call.
//
//	passes ──Hold───► delays ──────────Pass──► passes
//	passes ──Freeze─► loses or mutes ──Drop──► passes
type wayState int

const (
	passes  wayState = iota
	delays           // it is made when Arrive is called
	loses            // it is never made
	mutes            // it is made, and its answer is lost
	repeats          // it is made, and once more when Arrive is called
)

// Hold is [Way.Hold].
func (w *CallWay) Hold(after int) {
	w.set(delays)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = after
}

// Held is [Way.Held].
func (w *CallWay) Held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// Pass is [Way.Pass].
func (w *CallWay) Pass() { w.set(passes) }

// Freeze is [Way.Freeze].
func (w *CallWay) Freeze(requests, answers bool) {
	switch {
	case requests:
		w.set(loses)
	case answers:
		w.set(mutes)
	default:
		w.set(passes)
	}
}

// Drop is [Way.Drop].
func (w *CallWay) Drop() { w.set(passes) }

func (w *CallWay) set(state wayState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != passes {
		close(w.over)
	}
	w.state, w.over = state, make(chan struct{})
}

// Arrive makes the calls that were held up, in their order.
func (w *CallWay) Arrive() {
	w.mu.Lock()
	held := w.held
	w.held = nil
	w.mu.Unlock()
	for _, call := range held {
		call()
	}
}

// Meet lets a call meet the obstacle in its way. It returns how the call ends for its caller, once the context has
// ended or the trouble is over; nil means that there is no obstacle, and that the caller makes the call. The call may
// be made when its caller has gone, so it owns all that it needs.
func (w *CallWay) Meet(ctx context.Context, call func(context.Context)) error {
	w.mu.Lock()
	state, over := w.state, w.over
	switch {
	case state == delays && w.after > 0:
		w.after--
		state = passes
	case state == delays:
		w.held = append(w.held, func() { call(context.WithoutCancel(ctx)) })
	}
	w.mu.Unlock()
	switch state {
	case passes:
		return nil
	case mutes:
		call(ctx)
	}
	select {
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-over:
		return driver.Unknown(errBroke)
	}
}

// A lateDriver is a client whose calls pass a CallWay.
type lateDriver struct {
	driver.Driver
	way CallWay
}

// twice, in a context, makes a whole call once more when Arrive is called.
type twice struct{}

func (l *lateDriver) meet(ctx context.Context, call func(context.Context)) error {
	if ctx.Value(twice{}) == nil {
		return l.way.Meet(ctx, call)
	}
	l.way.mu.Lock()
	defer l.way.mu.Unlock()
	l.way.held = append(l.way.held, func() { call(context.WithoutCancel(ctx)) })
	return nil
}

func (l *lateDriver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	copied := *c
	if err := l.meet(ctx, func(ctx context.Context) { _, _ = l.Driver.Enter(ctx, &copied) }); err != nil {
		return driver.Place{}, err
	}
	return l.Driver.Enter(ctx, c)
}

func (l *lateDriver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	copied := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		claim := *c
		copied[i] = &claim
	}
	if err := l.meet(ctx, func(ctx context.Context) { l.Driver.Renew(ctx, copied) }); err != nil {
		answers := make([]driver.Renewal, len(cs))
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	return l.Driver.Renew(ctx, cs)
}

func (l *lateDriver) Leave(ctx context.Context, d *driver.Release) error {
	claim := *d.Claim
	copied := driver.Release{Claim: &claim, Keep: d.Keep}
	if err := l.meet(ctx, func(ctx context.Context) { _ = l.Driver.Leave(ctx, &copied) }); err != nil {
		return err
	}
	return l.Driver.Leave(ctx, d)
}
