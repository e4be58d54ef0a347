package claim

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/internal/phrase"
)

// A waitView shows a person what a process waits for. It begins when the wait has lasted a moment, and reads the queue of
// one name at a time: of several names, the first that is not held yet.
type waitView struct {
	names   []string // in the order of locking
	most    time.Duration
	changed chan struct{} // has an event after a change of the fields below

	mu      sync.Mutex
	had     int              // how many are held
	tickets map[string]int64 // the tickets of waiting claims, by name
}

// verboseDelay replaces speech.Delay with --verbose.
const verboseDelay = 100 * time.Millisecond

// watchfully calls take, which waits for the lock, and meanwhile shows a person what it waits for: with --verbose by lines,
// on a terminal by one line that is redrawn, and otherwise not at all.
func (v *waitView) watchfully(
	ctx context.Context, c *stile.Client, take func() (*stile.Lease, error),
) (*stile.Lease, error) {
	show := Shower()
	if show == nil {
		return take()
	}
	stop := v.start(ctx, c, show)
	lease, err := take()
	stop()
	speech.Stderr.Erase()
	return lease, err
}

// Shower returns the function that shows a wait, or nil if waits are not shown.
func Shower() func(*page.Wait) {
	terminal := tty.Is(os.Stderr)
	switch {
	case speech.Current == speech.Quiet, speech.Current == speech.Normal && !terminal:
		return nil
	case !tty.Draws(os.Stderr):
		return saying(terminal && speech.Current == speech.Normal)
	}
	say := saying(false)
	return func(w *page.Wait) {
		if speech.Current >= speech.Verbose {
			say(w)
		}
		speech.Stderr.Draw(func(cells int) string {
			return "stile: " + phrase.OneLine(w.Text(cells-len("stile: "), true))
		})
	}
}

// saying returns a function that prints a wait on a line of its own: after each change, or once.
func saying(once bool) func(*page.Wait) {
	said := ""
	return func(w *page.Wait) {
		text := w.Text(0, false)
		switch {
		case text == said || w.Why() == "" || once && said != "":
			return
		case once:
			speech.Warn("%s", text)
		default:
			speech.Detail("%s", text)
		}
		said = text
	}
}

func newWaitView(names []string, most time.Duration) *waitView {
	return &waitView{
		names: slices.Sorted(slices.Values(names)), most: most, changed: make(chan struct{}, 1), tickets: map[string]int64{},
	}
}

// beside returns an observer that also informs the view.
func (v *waitView) beside(observer stile.Observer) stile.Observer {
	return func(e stile.Event) {
		v.observe(e)
		if observer != nil {
			observer(e)
		}
	}
}

// observe gets the events of the claims.
func (v *waitView) observe(e stile.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Kind {
	case stile.EventWaiting:
		v.tickets[e.Name] = e.Token
	case stile.EventAcquired:
		v.had++
	default:
		return
	}
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// now returns the awaited name, and its claim's ticket if it is known; no name if all are held.
func (v *waitView) now() (name string, ticket int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.had >= len(v.names) {
		return "", 0
	}
	name = v.names[v.had]
	return name, v.tickets[name]
}

// A Look is the state of a queue when it was read.
type Look struct {
	Queue stile.Queue
	At    time.Time
	Err   error
}

// start shows the wait until the returned function is called, which waits for the end of the showing.
func (v *waitView) start(ctx context.Context, c *stile.Client, show func(*page.Wait)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(done)
		wait := speech.Delay
		if speech.Current >= speech.Verbose {
			wait = verboseDelay
		}
		delay := time.NewTimer(wait)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
			return
		}
		for name, _ := v.now(); name != "" && ctx.Err() == nil; name, _ = v.now() {
			v.follow(ctx, c, name, begun, show)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// follow shows the queue of one name until the wait for this name is over.
func (v *waitView) follow(ctx context.Context, c *stile.Client, name string, begun time.Time, show func(*page.Wait)) {
	ctx, cancel := context.WithCancel(ctx)
	looks := make(chan Look)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for q, err := range c.Watch(ctx, name) {
			select {
			case looks <- Look{q, time.Now(), err}:
			case <-ctx.Done():
			}
		}
	}()
	defer func() {
		cancel()
		<-watched
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last Look
	for {
		now, ticket := v.now()
		if now != name {
			return
		}
		show(v.wait(name, ticket, begun, last))
		select {
		case <-ctx.Done():
			return
		case last = <-looks:
		case <-v.changed:
		case <-tick.C:
		}
	}
}

func (v *waitView) wait(name string, ticket int64, begun time.Time, last Look) *page.Wait {
	w := &page.Wait{Name: name, Waited: time.Since(begun), Most: v.most, Ticket: ticket,
		Silent: errors.Is(last.Err, stile.ErrUnreachable)}
	if !last.At.IsZero() {
		w.Queue, w.Seen = page.Aged(last.Queue, time.Since(last.At)), last.Err == nil
	}
	return w
}
