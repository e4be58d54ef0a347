//go:build unix

package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

const (
	herdSize = 1000
	herdRest = 5 * time.Second // until all have subscribed, and entered again
)

// herd measures many clients that come for one lock at the same time, wait for it, and then pass it on.
func (b *bench) herd() *measure {
	return &measure{
		key: "herd", title: "1,000 clients that come at once, wait, and pass the lock on", slow: true, each: herdRest + b.idle + 3*time.Second,
		about: "Each has a connection of its own, as if it were a process, and another client holds the lock. The first time ends when all " +
			"are in the queue; beside it is the server's processor time until then. Then they wait for " + b.idle.String() + ". Last, the lock goes " +
			"through all of them. The clients are in one process, which shares the cores with the server. Bare scripts are one for each client to " +
			"be in, and then one command of each client every 5 s; nothing is passed on.",
		columns: []column{
			{"in", "ms until all wait", 0}, {"work", "server's ms until then", 0}, {"idle", "% of a core while they wait", 2},
			{"rate", "hand-overs/s", 0},
		},
		rows: []*row{{name: ours, run: b.herdOne}, {name: bareScripts, run: b.bareHerdOne}},
	}
}

func (b *bench) herdOne() (s sample, err error) {
	size, rest := herdSize, herdRest
	if b.brief {
		size, rest = 20, b.settle
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	name := b.name()
	clients := make([]*stile.Client, 0, size+1)
	defer func() {
		cancel()
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
	}()
	waits := make(chan struct{}, size) // gets an element for each client that learns that its claim waits
	for range size + 1 {
		var once sync.Once
		o := &stile.Options{LockOptions: stile.LockOptions{TTL: defaultTTL}, Observer: func(e stile.Event) {
			if e.Kind == stile.EventWaiting {
				once.Do(func() { waits <- struct{}{} })
			}
		}}
		c, err := stile.Open(ctx, "redis://"+b.server.Addr, o)
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	holder := clients[size]
	lease, err := holder.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	errs := make([]error, size)
	defer all.Wait()
	s = sample{}
	begin := time.Now()
	work, err := serverTime(b.server, func() error {
		for i, c := range clients[:size] {
			all.Go(func() {
				lease, err := c.Mutex(name).Lock(ctx)
				if err == nil {
					err = lease.Unlock()
				}
				errs[i] = err
			})
		}
		return untilAllWait(waits, size)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	s["in"], s["work"] = millis(time.Since(begin)), millis(work)
	time.Sleep(rest)
	begin = time.Now()
	idle, err := serverTime(b.server, func() error { time.Sleep(b.idle); return nil })
	if err != nil {
		cancel()
		return nil, err
	}
	s["idle"] = 100 * idle.Seconds() / time.Since(begin).Seconds()
	begin = time.Now()
	if err := lease.Unlock(); err != nil {
		cancel()
		return nil, err
	}
	all.Wait()
	s["rate"] = float64(size) / time.Since(begin).Seconds()
	return s, errors.Join(errs...)
}

// untilAllWait returns when a number of claims wait.
func untilAllWait(waits <-chan struct{}, size int) error {
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for n := range size {
		select {
		case <-waits:
		case <-late.C:
			return errors.New("a minute is not enough for all to wait, but for " + strconv.Itoa(n))
		}
	}
	return nil
}

// serverTime calls do and returns how long the processor worked for the server meanwhile.
func serverTime(s *servertest.Server, do func() error) (time.Duration, error) {
	before, err := redisWorked(s)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := redisWorked(s)
	return after - before, err
}

func redisWorked(s *servertest.Server) (sum time.Duration, err error) {
	text, err := redisDo(s, "INFO", "cpu")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "used_cpu_user" || key == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum, nil
}
