//go:build unix

package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

// A succession is the terms of the demo of leaders, one after the other. When a leader has written often enough, the next
// fault hits it when it is about to write again. A leader that was stopped or deposed writes late: after the next leader
// has written as often.
//
//	leads ──asks, written often enough──> struck ──killed──────────────────────────────> over
//	                                        └─stopped, deposed──> late ──next wrote──> over
type succession struct {
	*demo.Processes
	name   string
	client *stile.Client // the observer's, which also deposes
	ttl    time.Duration
	faults []Fault // still to come
	show   func(format string, args ...any)

	begun time.Time
	terms []*term
	late  *term // the term whose write is held back
	held  *term // the term that continues after the late write
	views []view
	notes []string
	done  bool
	took  time.Duration
	fail  error // two led at once without a fault

	tokenless bool // the store's tokens need not rise
}

// A Fault is a kind of fault that hits a leader.
type Fault string

// The kinds of faults.
const (
	FaultKill   Fault = "killed"
	FaultStop   Fault = "stopped past its lease"
	FaultDepose Fault = "deposed by hand"
)

// A term is one candidate's time as the leader. Times count from the beginning.
type term struct {
	leader  *demo.Process
	token   int64
	begun   time.Duration
	struck  time.Duration // when the fault hit
	over    time.Duration // when the leader knew of the end, or was killed; 0 while it leads
	resumed time.Duration // when a leader that was stopped went on
	fault   Fault         // none if empty
	writes  []write
}

// A write is one write of a leader, into both files.
type write struct {
	at      time.Duration
	late    bool
	refused string // the guard's refusal
}

// A view is the leader in the eyes of an observer, from some time on.
type view struct {
	at     time.Duration
	leader string // nobody if empty
	token  int64
	err    error
}

func (s *succession) since() time.Duration { return time.Since(s.begun) }

// run lets the candidates campaign until all faults have hit and their effects were seen.
func (s *succession) run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	views, watched := make(chan view), make(chan struct{})
	defer func() { stop(); <-watched }()
	s.begun = time.Now()
	go func() {
		defer close(watched)
		s.observe(watching, views)
	}()
	for _, a := range s.All {
		if err := a.Tell("stand"); err != nil {
			return err
		}
	}
	most := 3*s.ttl + demo.Patience
	silence := time.NewTimer(most)
	defer silence.Stop()
	for !s.done {
		select {
		case v := <-views:
			s.views = append(s.views, v)
			continue
		case h := <-s.Heard:
			h.From.Ended = h.From.Ended || h.What == demo.DidEnd
			if err := s.hear(ctx, h); err != nil {
				return err
			}
			silence.Reset(most)
		case <-silence.C:
			return exit.With(exit.Store, fmt.Errorf("the store let nobody lead for %v", most))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.took = s.since()
	return nil
}

// observe reports who leads in the store, until the context ends.
func (s *succession) observe(ctx context.Context, views chan<- view) {
	for l, err := range s.client.Observe(ctx, s.name) {
		select {
		case views <- view{s.since(), l.Value, l.Ticket, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (s *succession) hear(ctx context.Context, h demo.Heard) error {
	if h.From.Dead {
		return nil
	}
	switch h.What {
	case didLead:
		s.lead(h)
		return nil
	case didCease:
		if t := s.term(h); t.over == 0 {
			t.over = s.since()
		}
		return nil
	case demo.DidAsk:
		return s.ask(ctx, s.term(h))
	case didWrite:
		return s.wrote(s.term(h), h.Text)
	}
	return h.Failure()
}

// term returns the latest term of the candidate that sent a notice; all its notices concern that term.
func (s *succession) term(h demo.Heard) *term {
	for _, t := range slices.Backward(s.terms) {
		if t.leader == h.From {
			return t
		}
	}
	return &term{leader: h.From} // a candidate that reports before it leads is a mistake, which the tables show
}

// lead notes that a term has begun.
func (s *succession) lead(h demo.Heard) {
	for _, t := range s.terms {
		if t.over == 0 && t.fault == "" && s.fail == nil {
			s.fail = demo.Wrong("candidates %d and %d led at once", t.leader.Number, h.From.Number)
		}
	}
	s.terms = append(s.terms, &term{leader: h.From, token: h.Token, begun: s.since()})
	s.show("candidate %d leads", h.From.Number)
}

// ask lets a leader write, or makes the next fault hit it. The leader waits for the order, so the time that this takes does
// not matter.
func (s *succession) ask(ctx context.Context, t *term) error {
	if s.late != nil || len(s.faults) == 0 || len(t.writes) < demo.Overtakes || t.over != 0 {
		return t.leader.Tell("write")
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	t.fault, t.struck = f, s.since()
	s.show("candidate %d is %s", t.leader.Number, f)
	switch f {
	case FaultKill:
		t.over = t.struck
		return t.leader.Kill()
	case FaultStop:
		s.late = t
		return t.leader.Halt(ctx, s.client.Mutex(s.name))
	}
	s.late = t
	_, err := s.client.Break(ctx, s.name, stile.BreakOptions{Ticket: t.token})
	if !errors.Is(err, stile.ErrUnsupported) {
		return err
	}
	t.fault, t.struck, s.late = "", 0, nil
	s.notes = append(s.notes, "This store has no way to depose a leader by hand.")
	return t.leader.Tell("write")
}

// wrote notes a write. After the first write of the next leader it lets a late one follow.
func (s *succession) wrote(t *term, refused string) error {
	late := s.late
	t.writes = append(t.writes, write{s.since(), t == late, refused})
	switch {
	case t == late:
		held := s.held
		s.late, s.held = nil, nil
		return errors.Join(t.leader.Tell("on"), held.leader.Tell("on"))
	case late != nil && s.held == nil && t == s.terms[len(s.terms)-1] && len(t.writes) >= demo.Overtakes:
		late.resumed, s.held = s.since(), t
		err := late.leader.Tell("write")
		if late.fault == FaultStop {
			err = errors.Join(err, late.leader.Cmd.Process.Signal(syscall.SIGCONT))
		}
		return err // this leader continues after the late write
	case late == nil && len(s.faults) == 0 && len(t.writes) >= demo.Overtakes+2:
		s.done = true
		return nil
	}
	return t.leader.Tell("on")
}
