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

	// prompt is how soon a waiting client must have a lock after its release.
	prompt = 3 * time.Second
)

// A kind is a kind of client.
type kind struct {
	name  string
	start func() (client, error)
	ends  time.Duration // how long its session, or lease, lives in the store
	delay time.Duration // how long the store then withholds the lock
	slow  time.Duration // how long it may sleep after it has found such a delay
	fixed bool          // it does not renew
	after string        // the kind of the same library that waits behind it; "" means the same kind
}

// A pair is two kinds of clients on one lock: the first holds it, and the second wants it then.
type pair struct {
	holder, contender string
	shares            bool // both may hold, or cannot see each other
}

// A result is the result of a pair's scenarios.
type result struct {
	pair
	store    string
	names    string        // the beginning of the lock's name
	shared   bool          // both held
	handover time.Duration // from the call of unlock until the contender said that it holds
	killed   time.Duration // from the end of the holder's process until the contender held
	behind   time.Duration // from the release, for a client behind one that was killed while it waited
	expired  time.Duration // from the stop of the holder's process until the contender held
	told     bool          // the holder's late release reported that the lock was lost
	outlasts bool          // the holder held for three leases
	err      error
}

// A scene is a lock and some clients, which are killed at its end.
type scene struct {
	name  string // of the lock
	cast  []client
	token int64 // of the last grant; 0 if that had none
}

func newScene(names string) *scene {
	return &scene{name: fmt.Sprintf("%sinterop-%08x", names, rand.Uint32())}
}

func (s *scene) end() {
	for _, c := range s.cast {
		c.close()
	}
}

// starting limits how many clients start at a time: a start takes a processor, and scenarios that run beside it are timed.
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

// granted waits for the lock and checks that its token is above the tokens of all earlier grants, of any client.
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

// takes makes a client take a lock that is free, or about to be.
func (s *scene) takes(c client, within time.Duration) error {
	if err := c.lock(s.name); err != nil {
		return err
	}
	return s.granted(c, within)
}

// waits returns an error if a client that asked for the lock gets it within a while.
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

// meet lets the holder block the contender, hand over to it, and die while it holds.
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

// die lets the holder die while it holds.
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

// soonest and latest bound when one client gets the lock with which another one died. Each kind renews its session before
// or when half of it has passed, and a store may keep a session for twice its time.
func soonest(dead kind) time.Duration { return dead.ends/3 + dead.delay }

func latest(dead, next kind) time.Duration { return 2*dead.ends + dead.delay + next.slow + prompt }

// queue lets one client hold, another of the same library wait, and the contender wait behind it. Then the one in the
// middle dies.
func queue(holder, middle, contender kind, r *result) error {
	s := newScene(r.names)
	defer s.end()
	var cast []client
	for _, k := range []kind{holder, middle, contender} {
		c, err := s.start(k) // started before a lease begins that its holder cannot renew
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
