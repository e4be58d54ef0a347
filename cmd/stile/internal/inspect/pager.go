package inspect

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/internal/exit"
)

// A pager redraws a page on the terminal until somebody ends it.
type pager struct {
	lines  func(columns, rows int) []page.Line // draws the present page
	change <-chan func() error                 // changes the page's data; an error ends the pager
}

// run shows the page. When it ends, the last page stays on the terminal.
func (p *pager) run(ctx context.Context) error {
	resized, stopped := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	signal.Notify(stopped, syscall.SIGTSTP)
	defer signal.Stop(resized)
	defer signal.Stop(stopped)
	screen := tty.OpenScreen(os.Stdin, os.Stdout)
	defer func() {
		screen.Close()
		columns, rows := tty.Size(os.Stdout)
		_, _ = os.Stdout.WriteString(page.Summary(p.lines(columns, rows))) // if the terminal is gone, nobody sees it
	}()
	keys := pressed(os.Stdin)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		columns, rows := tty.Size(os.Stdout)
		screen.Draw(page.Paint(p.lines(columns, rows), tty.Colours(os.Stdout)))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case change := <-p.change:
			if err := change(); err != nil {
				return err
			}
		case key := <-keys:
			if key == 'q' || key == 'Q' {
				return nil
			}
		case <-stopped:
			screen.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // to itself, which cannot fail; the shell continues it
			screen = tty.OpenScreen(os.Stdin, os.Stdout)
		case <-resized:
		case <-tick.C:
		}
	}
}

// pressed returns the pressed keys. Only the end of the process ends the reading.
func pressed(f *os.File) <-chan byte {
	keys := make(chan byte)
	if !tty.Is(f) {
		return keys
	}
	go func() {
		var b [1]byte
		for {
			if n, err := f.Read(b[:]); n == 0 || err != nil {
				return
			}
			keys <- b[0]
		}
	}()
	return keys
}

const (
	// mostChanges is how many changes the page keeps.
	mostChanges = 200

	// leaseEvery is how often a page asks for the remaining leases: a watch does not report renewals.
	leaseEvery = 2 * time.Second
)

// A watched queue has the data of the page of stile watch.
type watched struct {
	last    *stile.Queue // its state at the time seen; nil before the first
	seen    time.Time
	silent  time.Time
	changes []page.Change
}

// watchPage shows the queue of a name on the terminal.
func watchPage(ctx context.Context, s *store.Store, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	change, done := make(chan func() error), make(chan struct{})
	w := &watched{}
	send := func(f func() error) bool {
		select {
		case change <- f:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var client atomic.Pointer[stile.Client]
	go func() {
		defer close(done)
		for q, err := range queues(ctx, s, name, func(c *stile.Client) { client.Store(c) }) {
			if !send(func() error { return w.see(q, err, time.Now()) }) {
				return
			}
		}
	}()
	go func() {
		for tick := time.Tick(leaseEvery); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			if c := client.Load(); c != nil {
				if q, err := c.Show(ctx, name); err == nil {
					send(func() error { w.refresh(q, time.Now()); return nil })
				}
			}
		}
	}()
	defer func() {
		cancel()
		<-done
	}()
	p := &pager{change: change,
		lines: func(columns, rows int) []page.Line { return w.page(name, time.Now()).Lines(columns, rows) }}
	return p.run(ctx)
}

// see takes a reading of the queue, or the failure of one.
func (w *watched) see(q stile.Queue, err error, now time.Time) error {
	if err != nil {
		if !exit.Passes(err) {
			return err
		}
		if w.silent.IsZero() {
			w.silent = now
		}
		return nil
	}
	w.changes = append(w.changes, page.Changes(w.last, q, now)...)
	if n := len(w.changes) - mostChanges; n > 0 {
		w.changes = w.changes[n:]
	}
	w.last, w.seen, w.silent = &q, now, time.Time{}
	return nil
}

// refresh takes another reading, unless it shows a change: the watch will report the change in its order.
func (w *watched) refresh(q stile.Queue, now time.Time) {
	if w.last != nil && len(page.Changes(w.last, q, now)) == 0 && q.Permits == w.last.Permits {
		w.last, w.seen = &q, now
	}
}

func (w *watched) page(name string, now time.Time) *page.Watch {
	p := &page.Watch{Queue: stile.Queue{Name: name}, Now: now, Silent: w.silent, Changes: w.changes}
	if w.last != nil {
		p.Queue, p.Seen = page.Aged(*w.last, now.Sub(w.seen)), true
		p.Queue.Name = name
	}
	return p
}
