package tickets

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/demo"
)

// A selling lets processes sell the tickets of a box. With faults, the seller that is about to write when a quarter of the
// tickets is sold is killed there. The seller that is about to write when half of them are sold is stopped, until others
// have sold some more. Then it continues, and writes late.
//
//	faultAhead ──asks, a quarter sold──> faultKilled ──asks, half sold──> faultStopped ──others sold──> faultsOver
//
// Without faults a selling is in faultsOver from its beginning.
type selling struct {
	*demo.Processes
	*box
	name string // of the lock; empty without one
	way  string // of the sellers
	public
	lock   *stile.Lock // a lock by which others test the store; nil without one
	ttl    time.Duration
	faults selfault
	show   func(sold int)

	begun time.Time
	sold  int
	gone  int // the sellers that have ended or were killed
	late  <-chan time.Time
	havoc
}

type selfault int

const (
	faultsOver selfault = iota
	faultAhead
	faultKilled
	faultStopped
)

// A public is the numbers of sellers and of browsers.
type public struct{ processes, browsers int }

// A looking has the counts of the browsers of a sale.
type looking struct {
	looks int
	torn  int // looks that saw a half-made sale
	gone  int // the browsers that have ended
}

// A havoc is the effect of the faults. Times count from the beginning.
type havoc struct {
	killed, stopped   *demo.Process
	killedAt          time.Duration
	following         time.Duration // from the kill until the next sale
	stoppedAt, goesOn time.Duration
	held              int            // the ticket that the seller hit by the latest fault was about to sell
	overtakers        int            // the sales of others meanwhile
	lateTicket        int            // the ticket that the stopped seller sold late; 0 for none
	lost              map[int64]bool // the tokens of the sales during which a lease was lost
	refused           []string       // the guard's refusals
}

const (
	sellerRole = "seller"
)

// run runs the sellers, all beginning at once, until nothing is left.
func (s *selling) run(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	s.Processes, s.lost = demo.NewProcesses(url), map[int64]bool{}
	defer func() {
		if s.faults == faultStopped {
			cancel() // kills all: a stopped one would not end
		}
		s.Close(ctx, cancel)
	}()
	for i := range s.processes {
		a, err := s.Start(ctx, sellerRole, "demo", sellerName, s.dir, strconv.Itoa(i+1), s.name, s.ttl.String(), s.way)
		if err != nil {
			return err
		}
		s.pids = append(s.pids, a.Cmd.Process.Pid)
	}
	for range s.browsers {
		if _, err := s.Start(ctx, browserRole, "demo", browserName, s.dir, strconv.Itoa(s.tickets), s.name,
			s.ttl.String()); err != nil {
			return err
		}
	}
	if err := s.Gather(ctx); err != nil {
		return err
	}
	s.begun = time.Now()
	for _, a := range s.All {
		if err := a.Tell("begin"); err != nil {
			return err
		}
	}
	for s.gone < s.processes {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	s.took = time.Since(s.begun)
	for _, a := range s.All[s.processes:] {
		if err := a.Tell("end"); err != nil {
			return err
		}
	}
	for s.seen.gone < s.browsers {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	return s.read()
}

// step takes one notice, or resumes a seller that has been stopped for too long.
func (s *selling) step(ctx context.Context) error {
	select {
	case h := <-s.Heard:
		h.From.Ended = h.From.Ended || h.What == demo.DidEnd
		return s.hear(ctx, h)
	case <-s.late: // nobody else got the lock
		return s.resume()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *selling) hear(ctx context.Context, h demo.Heard) error {
	if h.Lost {
		s.lost[h.Token] = true
	}
	switch {
	case h.From.Dead:
		return nil
	case h.What == demo.DidAsk:
		return s.ask(ctx, h)
	case h.What == didSell:
		return s.sale(h)
	case h.What == demo.DidHalt:
		s.refused = append(s.refused, h.Text)
		return nil
	case h.What == demo.DidLose:
		return nil
	case h.What == didBrowse:
		s.seen.looks += h.Looks
		s.seen.torn += h.Torn
		s.seen.gone++
		h.From.Dead = true
		return nil
	case h.What == didSellOut:
		s.gone++
		h.From.Dead = true // its later notices no longer count, such as its end
		if s.faults == faultStopped && s.gone == s.processes-1 {
			return s.resume()
		}
		return nil
	}
	return h.Failure()
}

// ask lets a seller write, or makes the next fault hit it. The seller waits for the order, so the time that this takes does
// not matter. The number sold is the one that this seller read, since the notices of others may be late.
func (s *selling) ask(ctx context.Context, h demo.Heard) error {
	a, sold := h.From, s.tickets-h.Order
	switch {
	case s.faults == faultAhead && sold >= s.tickets/4:
		s.faults, s.killed, s.killedAt, s.held = faultKilled, a, time.Since(s.begun), h.Order
		s.gone++
		return a.Kill()
	case s.faults == faultKilled && sold >= s.tickets/2:
		s.faults, s.stopped, s.stoppedAt, s.held = faultStopped, a, time.Since(s.begun), h.Order
		s.late = time.After(3*s.ttl + demo.Patience/2) // sooner than the waiters for the lock give up
		return a.Halt(ctx, s.lock)
	}
	return a.Tell("sell")
}

// sale notes a sale.
func (s *selling) sale(h demo.Heard) error {
	s.sold++
	s.show(s.sold)
	before := h.Order > s.held // that sale happened before the latest fault, and its notice came late
	switch {
	case s.faults == faultKilled && s.following == 0 && !before:
		s.following = time.Since(s.begun) - s.killedAt
	case s.goesOn != 0 && h.From == s.stopped && s.lateTicket == 0 && len(s.refused) == 0:
		s.lateTicket = h.Order
	case s.faults == faultStopped && !before:
		if s.overtakers++; s.overtakers >= demo.Overtakes {
			return s.resume()
		}
	}
	return nil
}

// resume lets the stopped seller continue with its write.
func (s *selling) resume() error {
	s.faults, s.late, s.goesOn = faultsOver, nil, time.Since(s.begun)
	return errors.Join(s.stopped.Tell("sell"), s.stopped.Cmd.Process.Signal(syscall.SIGCONT))
}
