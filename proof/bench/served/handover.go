//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile"
)

// patience is how long a step may take before the run fails.
const patience = time.Minute

// A waiter is a client that says when it waits.
type waiter struct {
	*stile.Client
	waits chan struct{}
}

// open opens a client. Its events also go to others, if there are any.
func open(url string, o *stile.Options, others ...stile.Observer) (*waiter, error) {
	w := &waiter{waits: make(chan struct{}, 64)}
	o.Observer = func(e stile.Event) {
		for _, other := range others {
			other(e)
		}
		if e.Kind == stile.EventWaiting {
			w.waits <- struct{}{}
		}
	}
	var err error
	w.Client, err = stile.Open(context.Background(), url, o)
	return w, err
}

// A got is a lease, and when it came.
type got struct {
	*stile.Lease
	at  time.Time
	err error
}

// A way is one way to the store.
type way struct {
	name   string
	url    string
	two    [2]*waiter
	rounds [][]float64 // milliseconds
}

// handOver measures hand-overs over Redis, directly and through the service.
func handOver(r *run) error {
	tls, proxied, err := r.secured()
	if err != nil {
		return err
	}
	ways := []*way{
		{name: "the store, directly", url: r.direct()},
		{name: "stile serve", url: "stile://" + r.overRedis().Addr},
		{name: "stile serve, TLS", url: tls},
		{name: "stile serve, behind nginx with TLS", url: proxied},
	}
	for _, w := range ways {
		for i := range w.two {
			if w.two[i], err = open(w.url, &stile.Options{Turn: time.Nanosecond}); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			defer w.two[i].Close()
		}
	}
	for range r.rounds {
		for _, w := range ways {
			times, err := w.pass(r.window)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.rounds = append(w.rounds, times)
		}
	}
	t := r.page.table("Hand-over", "One client holds a lock in Redis, and another one waits for it, for 5 to 15 ms. The time is from the call of Unlock until Lock has "+
		"returned at the other one.", "way", "p50", "÷ directly", "hand-overs")
	for _, w := range ways {
		var ratios, medians []float64
		n := 0
		for i, round := range w.rounds {
			medians, n = append(medians, median(round)), n+len(round)
			ratios = append(ratios, median(round)/median(ways[0].rounds[i]))
		}
		t.row(w.name, millis(median(medians)), times(median(ratios)), fmt.Sprint(n))
		r.say("hand-over: %s: %s, %s of the direct one", w.name, millis(median(medians)), times(median(ratios)))
		if w != ways[0] {
			r.page.target("hand-over over Redis, p50, "+w.name+" ÷ directly", median(ratios), atMost, 3)
		}
	}
	return nil
}

// pass passes a lock to and fro for a while, and returns how long each time took, in milliseconds.
func (w *way) pass(window time.Duration) (times []float64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), window+patience)
	defer cancel()
	lease, err := w.two[0].Mutex("served/passed").Lock(ctx)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(window)
	for i := 1; time.Now().Before(end) || len(times) == 0; i++ {
		to := w.two[i%2]
		next := make(chan got, 1)
		go func() {
			lease, err := to.Mutex("served/passed").Lock(ctx)
			next <- got{lease, time.Now(), err}
		}()
		select {
		case <-to.waits:
		case g := <-next:
			return nil, errors.Join(errors.New("a client got a lock that another one held"), g.err)
		}
		time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond))
		begun := time.Now()
		if err := lease.Unlock(); err != nil {
			return nil, err
		}
		g := <-next
		if g.err != nil {
			return nil, g.err
		}
		lease, times = g.Lease, append(times, g.at.Sub(begun).Seconds()*1e3)
	}
	return times, lease.Unlock()
}
