package tickets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const (
	chaosTickets = 1000 // at most: the guard writes to the disk at each sale
	chaosFewest  = 10
	chaosSellers = 3 // at least: one is killed, one is stopped, and one goes on
)

// A part is one way in which the tickets are sold while sellers are killed and stopped, and its result.
type part struct {
	title string
	*selling
}

// checkChaos checks the flags that have other limits with --chaos.
func (d *ticketsDemo) checkChaos() error {
	switch {
	case !d.chaos:
		return nil
	case d.processes < chaosSellers:
		return exit.Usage("--processes %d: with --chaos it must be from %d to 64: one is killed, one is stopped, and one goes on",
			d.processes, chaosSellers)
	case d.tickets < chaosFewest || d.tickets > chaosTickets:
		return exit.Usage("--tickets %d: with --chaos it must be from %d to %d", d.tickets, chaosFewest, chaosTickets)
	}
	return nil
}

// wreak sells without a lock, with one, and with lock and guard, while sellers are killed and stopped.
func (d *ticketsDemo) wreak(ctx context.Context, setup *demo.Setup) error {
	d.Say("%d processes sell %d tickets from one file. The lock is kept in %s, with leases of %v.", d.processes, d.tickets,
		setup.Address, d.ttl)
	d.Say("One seller is killed while it holds, and one is stopped past its lease: each right before it writes.")
	if d.tokenless {
		d.Say("%s", demo.NoTokens)
	}
	names := "demo/tickets/" + rand.Text()[:8]
	parts := []*part{
		{"without lock", &selling{way: sellAsking}},
		{"with lock", &selling{way: sellAsking, name: names + "/plain"}},
	}
	if !d.tokenless {
		parts = append(parts, &part{"with lock and guard", &selling{way: sellGuarded, name: names + "/guarded"}})
	}
	if err := d.strike(ctx, setup, parts[:1]); err != nil {
		return err
	}
	if err := d.strike(ctx, setup, parts[1:]); err != nil {
		return err
	}
	if err := d.Draw(chaosTimeline(parts[1:])); err != nil {
		return err
	}
	if err := d.printChaos(parts); err != nil {
		return err
	}
	return judgeParts(parts)
}

// strike sells in some parts at the same time, since each waits for the ends of its own leases.
func (d *ticketsDemo) strike(ctx context.Context, setup *demo.Setup, parts []*part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sales, failed := make(chan int), make(chan error)
	for _, p := range parts {
		p.ttl, p.public, p.faults = d.ttl, public{d.processes, d.browsers}, faultAhead
		if p.name != "" {
			p.lock = setup.Client.Mutex(p.name)
		}
		p.show = func(int) { sales <- 1 }
		go func() { failed <- d.runPart(ctx, p, setup) }()
	}
	defer d.Erase()
	var first error
	for sold, left := 0, len(parts); left > 0; {
		select {
		case n := <-sales:
			sold += n
			d.Progress("%d sold", sold)
		case err := <-failed:
			left--
			if first == nil && err != nil {
				first = err
				cancel() // the others end too, and their errors add nothing
			}
		}
	}
	return first
}

// runPart sells the tickets of one part.
func (d *ticketsDemo) runPart(ctx context.Context, p *part, setup *demo.Setup) (err error) {
	limit := demo.Limit + 6*d.ttl
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the sale took longer than %v", limit))
	defer cancel()
	if p.box, err = openBox(setup.Path(strings.ReplaceAll(p.title, " ", "-")), d.tickets); err != nil {
		return exit.With(exit.Failed, err)
	}
	if err = p.run(ctx, setup.URL); err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if _, told := errors.AsType[*exit.Status](err); !told {
		err = exit.With(exit.Failed, err)
	}
	return d.halfDone(p.box, p.title, p.name, fmt.Errorf("%s: %w", p.title, err))
}

// unsold counts the tickets that nobody bought.
func (b *box) unsold() int {
	sold := map[int]bool{}
	for _, s := range b.sales {
		sold[s.ticket] = true
	}
	return b.tickets - len(sold)
}

// firstTwice returns the first sale of a ticket that was sold before, or nil.
func (b *box) firstTwice() *sale {
	sold := map[int]bool{}
	for i := range b.sales {
		s := &b.sales[i]
		if sold[s.ticket] {
			return s
		}
		sold[s.ticket] = true
	}
	return nil
}

// judgeParts returns an error if a result is wrong.
func judgeParts(parts []*part) error {
	for i, p := range parts {
		switch n := p.unsold(); {
		case n > 0:
			return demo.Wrong("%s, %d tickets were not sold", p.title, n)
		case i == 0: // without a lock, few results are certain
		case p.killed == nil || p.stopped == nil:
			return demo.Wrong("%s, not both faults hit, so that this shows nothing", p.title)
		case p.overtakers == 0:
			return demo.Wrong("%s, nobody sold while a seller was stopped for %v", p.title, phrase.Rounded(p.stoppedFor()))
		}
	}
	free, locked := parts[0], parts[1]
	for _, p := range parts[2:] {
		if twice, worst, times := p.twice(); twice > 0 {
			return demo.Wrong("%s, %d tickets were sold more than once, number %d to %d customers", p.title, twice, worst, times)
		}
		switch {
		case p.seen.torn > 0:
			return demo.Wrong("%s, %d of %d looks saw a half-made sale", p.title, p.seen.torn, p.seen.looks)
		case len(p.refused) == 0:
			return demo.Wrong("the guard refused nothing")
		case !p.tokensRise():
			return demo.Wrong("%s, the tokens did not rise from sale to sale", p.title)
		}
	}
	first := locked.firstTwice()
	switch {
	case first == nil:
		return demo.Wrong("the lock without a guard sold each ticket once, so that this shows nothing")
	case !locked.lost[first.token]:
		return demo.Wrong("with the lock, ticket %d was sold more than once, although no lease had been lost", first.ticket)
	case free.firstTwice() == nil:
		return demo.Wrong("without a lock each ticket was sold once, so that this shows nothing")
	}
	return nil
}

// stoppedFor returns how long a seller was stopped.
func (p *part) stoppedFor() time.Duration { return p.goesOn - p.stoppedAt }
