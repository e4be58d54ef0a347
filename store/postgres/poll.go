package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
)

// A poller polls the database for all waiting claims of a driver, if notifications do not arrive.
type poller struct {
	d    *Driver
	kick chan struct{} // a claim began to wait: poll soon

	mu      sync.Mutex // guards the fields below
	on      bool       // its goroutine runs
	waiters map[*waiter]bool
}

// A waiter waits for a claim's turn.
type waiter struct {
	name, id string
	ticket   int64
	told     chan driver.Place // has room for one
}

const (
	pollMin = 4 * time.Millisecond
	pollMax = 250 * time.Millisecond
)

func newPoller(d *Driver) *poller {
	return &poller{d: d, kick: make(chan struct{}, 1), waiters: map[*waiter]bool{}}
}

func (p *poller) wait(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	w := &waiter{name: c.Name, id: c.ID, ticket: c.Ticket, told: make(chan driver.Place, 1)}
	p.mu.Lock()
	p.waiters[w] = true
	if !p.on {
		p.on = p.d.link.Go(p.run)
	}
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
	defer func() {
		p.mu.Lock()
		delete(p.waiters, w)
		p.mu.Unlock()
	}()
	select {
	case place := <-w.told:
		return place, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-p.d.link.Context().Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// run polls while any claim waits: soon after one began to wait or there was news, and later less and less often.
func (p *poller) run() {
	pause := pollMin
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.kick:
			pause = pollMin
		case <-p.d.link.Context().Done():
			return
		}
		ws := p.all()
		if len(ws) == 0 {
			return
		}
		if news, _ := p.lookAtClaims(ws); news { // after a failure, the waiters enter again when their time is up
			pause = pollMin
		}
		timer.Reset(pause)
		pause = min(pause+pause/2, pollMax)
	}
}

// all returns the waiters. If there are none, the goroutine must end.
func (p *poller) all() []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ws []*waiter
	for w := range p.waiters {
		ws = append(ws, w)
	}
	p.on = len(ws) > 0
	return ws
}

// lookAtClaims ends the waits with news, and reports whether there was any.
func (p *poller) lookAtClaims(ws []*waiter) (news bool, err error) {
	var (
		names, ids [][]byte
		tickets    []int64
	)
	for _, w := range ws {
		names, ids, tickets = append(names, []byte(w.name)), append(ids, []byte(w.id)), append(tickets, w.ticket)
	}
	err = p.d.link.Query(p.d.link.Context(), p.d.statements.waiting, []any{names, tickets, ids}, func(rows pgx.Rows) error {
		var (
			i           int
			holds, gone bool
		)
		if err := rows.Scan(&i, &holds, &gone); err != nil || !holds && !gone {
			return err
		}
		w := ws[i-1]
		news = true
		place := driver.Place{} // the next Enter reports a claim that is gone
		if holds {
			place = driver.Place{Ticket: w.ticket, Holds: true}
		}
		select {
		case w.told <- place:
		default:
		}
		return nil
	})
	return news, err
}
