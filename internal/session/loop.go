package session

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// answerWithin is the limit of a statement. Then its connection is given up.
	answerWithin = 10 * time.Second

	// proveWithin is how long a Leave waits for the proof that a connection is gone.
	proveWithin = 5 * time.Second

	leastProof = time.Millisecond // between two questions about a connection that was given up
	mostProof  = 100 * time.Millisecond

	// pollEvery is the pause between two tries for waiting claims that the scout does not cover.
	pollEvery = 100 * time.Millisecond

	// atEase is how long the home must be idle before the loop watches for its end.
	atEase = time.Millisecond

	// together is the most orders that one statement serves.
	together = 256
)

var errDoubtful = driver.Unreachable(errors.New("it is not known yet whether the server has freed the lock"))

// run executes orders, and attends to the claims in between.
func (s *Session) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var (
			orders []*order
			ended  <-chan struct{}
		)
		if s.home != nil && time.Since(s.spoke) >= atEase {
			ended = s.home.Rest()
		}
		select {
		case o := <-s.orders:
			orders = s.gather(o)
		case <-ended:
			s.giveUp()
		case err := <-s.scout.back:
			s.returned(err)
		case gone := <-s.proven:
			s.claims.proven(gone)
			s.look = time.Now()
		case <-timer.C:
		case <-s.life.Context().Done():
			s.scout.joinProbe()
			if s.home != nil {
				s.home.Close()
			}
			return
		}
		timer.Reset(time.Until(s.round(orders)))
	}
}

// gather returns an order, and the orders that came during the last statement.
func (s *Session) gather(first *order) []*order {
	orders := []*order{first}
	for len(orders) < together {
		select {
		case o := <-s.orders:
			orders = append(orders, o)
		default:
			return orders
		}
	}
	return orders
}

// round does all pending work with one statement, and returns the time of the next work.
func (s *Session) round(orders []*order) time.Time {
	now := time.Now()
	s.claims.expire(now)
	s.beat = s.home != nil && now.Sub(s.spoke) >= s.timeout/3
	for i, o := range orders {
		if o.ctx.Err() != nil {
			orders[i] = nil
			continue
		}
		o.before(now)
	}
	if !now.Before(s.look) {
		s.look = now.Add(pollEvery)
		s.poll()
	}
	var err error
	if s.beat || len(s.claims.steps) > 0 || len(s.claims.joins) > 0 {
		err = s.send()
	}
	s.claims.settle(s.scout.stray())
	for _, o := range orders {
		if o != nil {
			if o.after != nil {
				o.after(err)
			}
			close(o.done)
		}
	}
	return s.next(now)
}

// next returns the time of the next work.
func (s *Session) next(now time.Time) time.Time {
	next := s.scout.aim(now, now.Add(time.Hour))
	sooner := func(is bool, t time.Time) {
		if is && t.Before(next) {
			next = t
		}
	}
	sooner(len(s.claims.steps) > 0, now)
	sooner(len(s.claims.byID) > 0, s.claims.due)
	sooner(len(s.claims.line) > 0, s.look)
	sooner(s.home != nil, s.spoke.Add(s.timeout/3))
	sooner(s.home != nil && now.Sub(s.spoke) < atEase, s.spoke.Add(atEase))
	return next
}

// poll asks for the keys of waiting claims that the scout does not cover.
func (s *Session) poll() {
	for _, c := range s.claims.line {
		if !s.scout.covers(c) {
			s.claims.askForKey(c)
		}
	}
}

// send sends one statement to the home. No other function does.
func (s *Session) send() error {
	if s.home == nil {
		home, err := s.server.Connect(s.life.Context())
		if err != nil {
			s.claims.undone(err)
			return err
		}
		s.home = home
	}
	done, alive, err := s.do(false)
	switch {
	case err == nil && s.claims.answered(done):
		s.giveUp() // it had lost its locks
		return nil
	case err == nil:
		return nil
	case alive:
		// The server refused, perhaps after some of the steps. Nobody else here has these keys, so unlocking them is harmless.
		if _, _, undo := s.do(true); undo == nil {
			s.claims.undone(driver.NotYet(err))
			return nil
		}
	}
	s.giveUp()
	return err
}

// do applies the pending steps to the home connection, or undoes them.
func (s *Session) do(undo bool) (done []bool, alive bool, err error) {
	ctx, cancel := context.WithTimeout(s.life.Context(), s.within)
	defer cancel()
	now := time.Now()
	done, alive, err = s.home.Do(ctx, s.claims.stepsOf(undo))
	if err == nil {
		s.spoke = now
	}
	return done, alive, err
}

// giveUp closes the home for good. The claims with a lock there are gone. Another connection ends it in the server.
func (s *Session) giveUp() {
	home := s.home
	s.home = nil
	home.Close()
	ids := s.claims.fell(home)
	s.life.Go(func() { s.prove(home) })
	if f := s.endangered.Load(); f != nil && len(ids) > 0 && s.life.Context().Err() == nil {
		(*f)(ids...)
	}
}

// prove ends a connection in the server, and reports the proof to the loop.
func (s *Session) prove(c Conn) {
	life := s.life.Context()
	for pause := leastProof; !s.gone(life, c); pause = min(2*pause, mostProof) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
			return
		}
	}
	select {
	case s.proven <- c:
	case <-life.Done():
	}
}

func (s *Session) gone(ctx context.Context, c Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return s.server.Gone(ctx, c)
}

// An entry is a claim that enters or is renewed.
type entry struct {
	driver.Claim
	s       *Session
	renews  bool
	now     time.Time // when its lease begins
	own     *claim
	added   bool
	doubt   chan struct{} // closed when its key is no longer in doubt; it has not entered
	scouted bool          // it waits, and the scout waits for it
	place   driver.Place
	err     error
}

func (e *entry) before(now time.Time) {
	cs := e.s.claims
	e.now, e.own = now, cs.byID[e.ID]
	_, fell := cs.fallen[e.ID]
	name := e.s.server.Key(e.Name)
	switch k := cs.keys[name]; {
	case e.own != nil || fell || e.renews || e.Ticket != 0:
	case k != nil && k.state == keyDoubtful:
		e.doubt, e.s.beat = k.proven, true
	default:
		e.own, e.added = cs.add(e.ID, name, e.Weight != driver.All), true
	}
	e.s.beat = e.s.beat || e.own != nil
	if e.own != nil && e.own.state == claimWaiting && !e.renews {
		cs.askForKey(e.own)
	}
}

func (e *entry) after(err error) {
	cs := e.s.claims
	if e.own != nil && e.own.refused != nil {
		err, e.own.refused = e.own.refused, nil
	}
	switch {
	case e.doubt != nil:
		e.err = driver.NotYet(err) // it has not entered, and was not sent
	case e.added && err != nil:
		if driver.NotApplied(err) {
			cs.move(e.own, claimOver)
		}
		cs.release(e.own)
		e.err = err
	case e.added && e.Try && e.own.state == claimWaiting:
		cs.move(e.own, claimOver)
		e.place.Ahead = 1
	default:
		if _, e.err = cs.find(e.ID); e.err == nil {
			e.err = err
		}
		if e.err == nil {
			e.stay()
		}
	}
}

// stay renews the lease of a claim, and answers with its place. The server frees the locks of a connection after the
// session's timeout in silence.
func (e *entry) stay() {
	e.place.Ticket = e.own.ticket
	if e.own.state == claimHolding {
		e.place.Holds = true
		e.s.claims.until(e.own, e.now.Add(e.TTL))
	} else {
		e.place.Ahead = 1
		e.s.claims.until(e.own, e.now.Add(e.Wait))
		e.scouted = !e.added && e.s.scout.covers(e.own)
	}
	e.place.TTL = min(e.own.ends.Sub(e.now), e.s.timeout)
}

// A departure is a claim that leaves.
type departure struct {
	s    *Session
	id   string
	keep time.Duration
	own  *claim
	err  error
}

func (d *departure) before(now time.Time) {
	cs := d.s.claims
	own := cs.byID[d.id]
	switch {
	case own == nil || own.state == claimKept:
		d.err = cs.gone(d.id)
	case d.keep > 0 && own.state == claimHolding:
		cs.move(own, claimKept)
		own.ends = time.Time{}
		cs.until(own, now.Add(d.keep))
	default:
		d.own = own
		cs.release(own)
	}
}

func (d *departure) after(error) {
	d.s.look = time.Now() // other claims here may wait for its key
	switch {
	case d.own == nil:
	case d.own.state != claimOver:
		d.err = driver.Unknown(errDoubtful)
	case errors.Is(d.s.claims.gone(d.id), driver.ErrSession):
		d.err = driver.ErrSession
	}
}
