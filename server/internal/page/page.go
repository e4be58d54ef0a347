// Package page has what the lock service's page shows: snapshots of all queues, the differences between them, and the page's
// files.
package page

import (
	"context"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// second is the shortest time between two snapshots, whatever the number of viewers.
	second = time.Second

	// patience is for one List. A store that needs longer is shown as one that does not answer.
	patience = 30 * time.Second
)

// A Page takes snapshots of a store's queues while it has viewers.
type Page struct {
	list  func(context.Context) ([]driver.Listing, error)
	token func(ticket int64) string
	epoch time.Time // all times are milliseconds since then, so no clock is compared with another

	mu      sync.Mutex         // guards the fields below
	viewers int                // open ones
	stop    context.CancelFunc // ends run, while there are viewers
	ended   chan struct{}      // closed when the last run has ended
	due     time.Time          // when the next snapshot may be taken
	latest  *snapshot          // nil before the first
	news    chan struct{}      // closed by the next snapshot
	history *history
}

// New returns a page. list reads all queues of the store; the text of its error is shown. token returns the fencing token of
// a ticket, or "" in a store without fencing.
func New(list func(context.Context) ([]driver.Listing, error), token func(ticket int64) string) *Page {
	p := &Page{
		list: list, token: token, epoch: time.Now(), ended: make(chan struct{}), news: make(chan struct{}),
		history: newHistory(),
	}
	close(p.ended)
	return p
}

// at returns a time in milliseconds since the epoch.
func (p *Page) at(t time.Time) int64 { return t.Sub(p.epoch).Milliseconds() }

// A Viewer gets the snapshots of a page until it is closed. One goroutine uses it.
type Viewer struct {
	p    *Page
	last *snapshot         // that the viewer knows, or that is too old for it
	sent map[string]*queue // by name
}

// Open adds a viewer. The first viewer begins the snapshots.
func (p *Page) Open() *Viewer {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &Viewer{p: p}
	if !time.Now().Before(p.due) {
		v.last = p.latest
	}
	if p.viewers++; p.viewers == 1 {
		ctx, stop := context.WithCancel(context.Background())
		before := p.ended
		p.stop, p.ended = stop, make(chan struct{})
		go p.run(ctx, before, p.ended)
	}
	return v
}

// Close removes a viewer. The last viewer ends the snapshots.
func (v *Viewer) Close() {
	v.p.mu.Lock()
	ended := v.p.ended
	v.p.viewers--
	last := v.p.viewers == 0
	if last {
		v.p.stop()
	}
	v.p.mu.Unlock()
	if last {
		<-ended
	}
}

// Wait returns when there is a snapshot that the viewer does not know, or with the error of ctx.
func (v *Viewer) Wait(ctx context.Context) error {
	for {
		v.p.mu.Lock()
		latest, news := v.p.latest, v.p.news
		v.p.mu.Unlock()
		if latest != v.last {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run takes snapshots until ctx ends. It begins when the run before it has ended.
func (p *Page) run(ctx context.Context, before <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	<-before
	for {
		p.mu.Lock()
		pause := time.NewTimer(time.Until(p.due))
		p.mu.Unlock()
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		p.look(ctx)
	}
}

// look takes one snapshot. After a slow List it lets the store rest for as long as the List took.
func (p *Page) look(ctx context.Context) {
	begun := time.Now()
	p.mu.Lock()
	p.due = begun.Add(second)
	p.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := p.list(bounded)
	p.mu.Lock()
	defer p.mu.Unlock()
	if rested := time.Now().Add(time.Since(begun)); rested.After(p.due) {
		p.due = rested
	}
	if ctx.Err() != nil { // the last viewer has gone, and List ended early
		return
	}
	p.latest = p.nextLocked(p.at(begun), list, err)
	close(p.news)
	p.news = make(chan struct{})
}
