//go:build unix

package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// The bare limit of leases on rueidis with a time of their own each: keys that one command each keeps alive.

const (
	bareExpire = "bare PEXPIRE"

	expiredTogether = 32 // keys per script, as in stile's renewals
	expiredLooks    = 20 // looks per third of the ttl, so that a script has many keys
)

var bareRenew = rueidis.NewLuaScript(`for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end return 1`)

// A heldFloor makes and removes keys like a redisFloor, and renews existing keys, all on one connection.
type heldFloor struct {
	*redisFloor
	mu     sync.Mutex // guards kept
	kept   []keptKey  // in the order in which they are due
	cancel context.CancelFunc
	done   chan error // gets the error that ended the renewals
}

// A keptKey is a key that is renewed until it is removed.
type keptKey struct {
	held *heldFloorHeld
	due  time.Time
}

func openHeldFloor(addr string, ttl time.Duration) (library, error) {
	l, err := openRedisFloor(addr, ttl, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &heldFloor{redisFloor: l.(*redisFloor), cancel: cancel, done: make(chan error, 1)}
	go func() { f.done <- f.renew(ctx) }()
	return f, nil
}

func (f *heldFloor) mutex(name string) mutex {
	return heldFloorMutex{redisFloorMutex{name, f.redisFloor}, f}
}

func (f *heldFloor) close() {
	f.cancel()
	if err := <-f.done; err != nil {
		panic(err) // the keys were not renewed, so the figures would mean something else
	}
	f.redisFloor.close()
}

// renew renews keys until ctx ends, each after a third of its time.
func (f *heldFloor) renew(ctx context.Context) error {
	each := f.ttl / 3
	pause := each / expiredLooks
	look := time.NewTicker(pause)
	defer look.Stop()
	ttl := []string{strconv.FormatInt(f.ttl.Milliseconds(), 10)}
	for {
		for {
			keys := f.due(pause/2, each)
			if len(keys) == 0 {
				break
			}
			if err := bareRenew.Exec(ctx, f.client, keys, ttl).Error(); err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// due returns keys whose time has nearly come, not too many for one script, and moves them to the end.
func (f *heldFloor) due(nearly, each time.Duration) (keys []string) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(keys) < expiredTogether && len(f.kept) > 0 && f.kept[0].due.Before(now.Add(nearly)) {
		k := f.kept[0]
		f.kept = f.kept[1:]
		if !k.held.gone {
			keys = append(keys, k.held.name)
			f.kept = append(f.kept, keptKey{k.held, now.Add(each)})
		}
	}
	return keys
}

type heldFloorMutex struct {
	redisFloorMutex
	f *heldFloor
}

func (m heldFloorMutex) lock(ctx context.Context) (held, error) {
	due := time.Now().Add(m.l.ttl / 3)
	h, err := m.redisFloorMutex.lock(ctx)
	if err != nil {
		return nil, err
	}
	kept := &heldFloorHeld{redisFloorHeld: h.(redisFloorHeld), f: m.f}
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.kept = append(m.f.kept, keptKey{kept, due})
	return kept, nil
}

type heldFloorHeld struct {
	redisFloorHeld
	f    *heldFloor
	gone bool // guarded by f.mu
}

func (h *heldFloorHeld) Unlock() error {
	h.f.mu.Lock()
	h.gone = true
	h.f.mu.Unlock()
	return h.redisFloorHeld.Unlock()
}
