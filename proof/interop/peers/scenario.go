//go:build unix

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	// window is how long a client is watched that must not get the lock.
	window = 400 * time.Millisecond

	// prompt is how soon a lock that was given back is another client's who waits for it.
	prompt = 3 * time.Second
)

// A kind is one sort of client.
type kind struct {
	name  string
	start func() (client, error)
	ends  time.Duration // the time of its session, or lease, in the store
	delay time.Duration // how long the store then keeps the lock from others
	slow  time.Duration // how long it may sleep when it finds such a delay
	fixed bool          // it cannot renew
	after string        // the kind of the same library that waits behind it; "" means itself
}

// A pair is two clients on one lock: which holds it, and which wants it then.
type pair struct {
	holder, contender string
	shares            bool // both are meant to hold, or cannot see each other
}

// A result is what was seen of one pair.
type result struct {
	pair
	store    string
	names    string        // what the lock's name begins with
	shared   bool          // both held
	handover time.Duration // from the call that gives the lock back until the contender said that it holds
	killed   time.Duration // from the end of the holder's process
	behind   time.Duration // from the release, for a client that stands behind one that was killed while it waited
	expired  time.Duration // from the stop of the holder's process
	told     bool          // the holder, when it gave back what it no longer had, that this was so
	outlasts bool          // the holder held for three leases
	err      error
}

// A scene is some clients that are killed at its end.
type scene struct {
	name  string // of the lock
	cast  []client
	token int64 // of the last grant; 0 if it had none
}

func newScene(names string) *scene {
	return &scene{name: fmt.Sprintf("%sinterop-%08x", names, rand.Uint32())}
}

func (s *scene) end() {
	for _, c := range s.cast {
		c.close()
	}
}

// starting is how many clients start at a time: a start takes a processor, and what goes on beside it is timed.
var starting = make(chan struct{}, 3)

func (s *scene) start(k kind) (client, error) {
	starting <- struct{}{}
	c, err := k.start()
	<-starting
	if err != nil {
		return nil, fmt.Errorf("%s does not start: %w", k.name, err)
	}
	s.cast = append(s.cast, c)
	return c, nil
}

// granted waits for the lock and holds that its token is above those of earlier grants, whoever had them.
func (s *scene) granted(c client, within time.Duration) error {
	text, err := c.held(within)
	if err != nil {
		return err
	}
	if text == "-" {
		return nil
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	if token <= s.token {
		return fmt.Errorf("token %d after %d", token, s.token)
	}
	s.token = token
	return nil
}

// takes lets a client have a lock that is free, or about to be.
func (s *scene) takes(c client, within time.Duration) error {
	if err := c.lock(s.name); err != nil {
		return err
	}
	return s.granted(c, within)
}

// waits says that a client which asked for the lock does not get it for a while.
func waits(c client) error {
	token, err := c.held(window)
	if errors.Is(err, errWaits) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("it holds, token %s, while another client does", token)
}

// meet has the holder block the contender, hand over to it, and die holding.
func meet(holder, contender kind, r *result) error {
	s := newScene(r.names)
	defer s.end()
	a, err := s.start(holder)
	if err != nil {
		return err
	}
	b, err := s.start(contender)
	if err != nil {
		return err
	}
	if err := s.takes(a, patience); err != nil {
		return fmt.Errorf("the holder: %w", err)
	}
	if r.shares {
		if err := s.takes(b, patience); err != nil {
			return fmt.Errorf("the contender, which shares: %w", err)
		}
		r.shared = true
		return nil
	}
	if got, err := b.try(s.name); err != nil && !errors.Is(err, errCannot) {
		return fmt.Errorf("a try: %w", err)
	} else if got {
		return errors.New("a try holds while another client does")
	}
	if err := b.lock(s.name); err != nil {
		return err
	}
	if err := waits(b); err != nil {
		return fmt.Errorf("the contender: %w", err)
	}
	since := time.Now()
	if err := a.unlock(); err != nil {
		return fmt.Errorf("the holder's unlock: %w", err)
	}
	if err := s.granted(b, prompt); err != nil {
		return fmt.Errorf("the contender, after the unlock: %w", err)
	}
	r.handover = time.Since(since)
	if err := b.unlock(); err != nil {
		return fmt.Errorf("the contender's unlock: %w", err)
	}
	return s.die(a, b, holder, contender, r)
}

// die has the holder die holding.
func (s *scene) die(a, b client, holder, contender kind, r *result) error {
	if err := s.takes(a, patience); err != nil {
		return fmt.Errorf("the holder, again: %w", err)
	}
	if err := b.lock(s.name); err != nil {
		return err
	}
	if err := waits(b); err != nil {
		return fmt.Errorf("the contender, again: %w", err)
	}
	a.kill()
	since := time.Now()
	if err := s.granted(b, latest(holder, contender)); err != nil {
		return fmt.Errorf("the contender, after the holder's death: %w", err)
	}
	r.killed = time.Since(since)
	if r.killed < soonest(holder) {
		return fmt.Errorf("the contender holds %v after the holder's death, before a session could end", r.killed)
	}
	return nil
}

// soonest and latest bound when one client gets the lock that another one died with. Each kind renews its session when
// half of it is over or sooner, and a store may keep one for twice its time.
func soonest(dead kind) time.Duration { return dead.ends/3 + dead.delay }

func latest(dead, next kind) time.Duration { return 2*dead.ends + dead.delay + next.slow + prompt }

// queue has one client hold, another of the same library wait, and the contender wait behind it; the one in the middle dies.
func queue(holder, middle, contender kind, r *result) error {
	s := newScene(r.names)
	defer s.end()
	var cast []client
	for _, k := range []kind{holder, middle, contender} {
		c, err := s.start(k) // before a lease begins that its holder cannot renew
		if err != nil {
			return err
		}
		cast = append(cast, c)
	}
	for i, c := range cast {
		var err error
		if i == 0 {
			err = s.takes(c, patience)
		} else if err = c.lock(s.name); err == nil {
			err = waits(c)
		}
		if err != nil {
			return fmt.Errorf("client %d of three: %w", i+1, err)
		}
	}
	cast[1].kill()
	if err := waits(cast[2]); err != nil {
		return fmt.Errorf("the last of three, after the second's death: %w", err)
	}
	since := time.Now()
	if err := cast[0].unlock(); err != nil {
		return fmt.Errorf("the first of three: %w", err)
	}
	if err := s.granted(cast[2], latest(middle, contender)); err != nil {
		return fmt.Errorf("the last of three: %w", err)
	}
	r.behind = time.Since(since)
	return nil
}
