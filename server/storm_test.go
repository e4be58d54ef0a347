package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/store/memory"
)

// A storm is a network that delays, loses and repeats requests, loses answers, and sends each request to any replica.
type storm struct {
	t        *testing.T
	replicas []http.RoundTripper

	mu   sync.Mutex // guards the fields below
	rng  *rand.Rand
	late sync.WaitGroup
}

var errLost = errors.New("lost")

// under returns a number from 0 to n-1.
func (s *storm) under(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *storm) upTo(d time.Duration) time.Duration { return time.Duration(s.under(int(d))) }

func (s *storm) RoundTrip(r *http.Request) (*http.Response, error) {
	replica := s.replicas[s.under(len(s.replicas))]
	pass(s.upTo(100 * time.Millisecond))
	switch s.under(10) {
	case 0:
		return nil, errLost
	case 1: // a proxy sends it again, to another replica, when its client has long gone on
		again, other, after := r.Clone(context.WithoutCancel(r.Context())), s.replicas[s.under(len(s.replicas))], s.upTo(40*time.Second)
		s.late.Go(func() {
			pass(after)
			if res, err := other.RoundTrip(again); err == nil {
				res.Body.Close()
			}
		})
	case 2: // a proxy answers in place of the service, and ends its connection later
		after := s.upTo(30 * time.Second)
		s.late.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), after)
			defer cancel()
			if res, err := replica.RoundTrip(r.Clone(ctx)); err == nil {
				res.Body.Close()
			}
		})
		pass(s.upTo(2 * time.Second))
		return nil, errLost
	}
	res, err := replica.RoundTrip(r)
	pass(s.upTo(100 * time.Millisecond))
	if err == nil && s.under(10) == 0 {
		res.Body.Close()
		return nil, errLost
	}
	return res, err
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// A watchman knows which clients believe to hold, and until when.
type watchman struct {
	mu    sync.Mutex // guards the fields below
	who   int
	until time.Time
	held  int
}

// holds notes that a client holds until a time, if that time is in the future.
func (w *watchman) holds(t *testing.T, who int, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.who != who && time.Now().Before(w.until) && time.Now().Before(until) {
		t.Errorf("client %d holds for %v more, and so does client %d for %v", who, time.Until(until), w.who, time.Until(w.until))
	}
	if w.who != who {
		w.held++
	}
	w.who, w.until = who, until
}

func (w *watchman) over(who int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.who == who {
		w.until = time.Time{}
	}
}

// takes is a client that follows the page: it takes the lock, renews it, and releases it.
func (u *user) takes(s *storm, w *watchman, who int) {
	id := fmt.Sprintf("%022d-%d", who, s.under(1<<40))
	handle, ttl := id, []string{"1s", "4s", "15s", "1m"}[s.under(4)]
	ask := func(method, path string, within time.Duration) (said, time.Time, error) {
		ctx, cancel := context.WithTimeout(u.t.Context(), within)
		defer cancel()
		sent := time.Now()
		a, err := u.do(ctx, method, path, handle)
		return a, sent, err
	}
	var a said
	var sent time.Time
	for begin := time.Now(); ; {
		var err error
		a, sent, err = ask("PUT", "a?wait=20s&ttl="+ttl, time.Second+s.upTo(30*time.Second))
		if err == nil && a.Handle != "" {
			handle = a.Handle
		}
		if err == nil && (a.status == 200 || a.status == 410) {
			break
		}
		if time.Since(begin) > time.Hour {
			u.t.Errorf("client %d waits for ever: %+v, %v", who, a, err)
			return
		}
	}
	if a.status == 410 {
		return
	}
	until, valid := sent.Add(time.Duration(a.Valid)*time.Millisecond), time.Duration(a.Valid)*time.Millisecond
	w.holds(u.t, who, until)
	if s.under(5) == 0 { // it stands still
		pass(time.Until(until))
		return
	}
	for n := s.under(5); n >= 0 && time.Now().Before(until); {
		a, sent, err := ask("POST", "a", max(valid/6, 100*time.Millisecond))
		if err != nil || a.status != 200 {
			if err == nil && a.status == 410 {
				if time.Now().Before(until) {
					u.t.Errorf("client %d lost its lock %v before its time", who, time.Until(until))
				}
				break
			}
			continue
		}
		valid = time.Duration(a.Valid) * time.Millisecond
		if !time.Now().Before(until) {
			break
		}
		until = sent.Add(valid)
		w.holds(u.t, who, until)
		pass(time.Until(sent.Add(valid / 3)))
		n--
	}
	w.over(who)
	for range 20 {
		if a, _, err := ask("DELETE", "a", 5*time.Second); err == nil && (a.status == 200 || a.status == 410) {
			return
		}
	}
}

// Requests to two replicas are late, lost and repeated. No two clients that follow the page hold at the same time, none
// loses the lock too early, and all get it.
func TestStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			s := &storm{t: t, rng: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // the same storm each time
			for range 2 {
				s.replicas = append(s.replicas, listening(t, store.Driver()))
			}
			u, w := &user{t, &http.Client{Transport: s}}, &watchman{who: -1}
			var clients sync.WaitGroup
			for who := range 5 {
				clients.Go(func() {
					for range 5 {
						u.takes(s, w, who)
					}
				})
			}
			clients.Wait()
			s.late.Wait()
			if w.held < 5 {
				t.Errorf("seed %d: the lock was held %d times", seed, w.held)
			}
		})
	}
}
