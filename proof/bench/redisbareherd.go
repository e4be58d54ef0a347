//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// bareHerdOne is the bare limit of a herd: each client enters with one script, and renews its entry after each third of the
// ttl. Nothing is passed on.
func (b *bench) bareHerdOne() (s sample, err error) {
	size, rest := herdSize, herdRest
	if b.brief {
		size, rest = 20, b.settle
	}
	ctx, cancel := context.WithCancel(context.Background())
	clients := make([]*redisFloor, 0, size)
	var renewals sync.WaitGroup
	defer func() {
		cancel()
		renewals.Wait()
		for _, c := range clients {
			c.close()
		}
	}()
	for range size {
		c, err := openRedisFloor(b.server.Addr, defaultTTL, true)
		if err != nil {
			return nil, err
		}
		clients = append(clients, c.(*redisFloor))
	}
	name, errs := b.name(), make([]error, size)
	s = sample{}
	begin := time.Now()
	work, err := serverTime(b.server, func() error {
		var all sync.WaitGroup
		for i, c := range clients {
			all.Go(func() { _, errs[i] = c.mutex(name + "/" + strconv.Itoa(i)).lock(ctx) })
		}
		all.Wait()
		s["in"] = millis(time.Since(begin))
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, err
	}
	s["work"] = millis(work)
	for i, c := range clients {
		renewals.Go(func() { errs[i] = c.keep(ctx, name+"/"+strconv.Itoa(i)) })
	}
	time.Sleep(rest)
	begin = time.Now()
	idle, err := serverTime(b.server, func() error { time.Sleep(b.idle); return nil })
	if err != nil {
		return nil, err
	}
	s["idle"] = 100 * idle.Seconds() / time.Since(begin).Seconds()
	cancel()
	renewals.Wait()
	return s, errors.Join(errs...)
}

// keep renews a key after each third of the ttl, beginning at a random moment, until ctx ends.
func (l *redisFloor) keep(ctx context.Context, key string) error {
	each := l.ttl / 3
	for wait := rand.N(each); ; wait = each {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		err := l.client.Do(ctx, l.client.B().Pexpire().Key(key).Milliseconds(l.ttl.Milliseconds()).Build()).Error()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}
