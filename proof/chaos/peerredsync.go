//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// redsyncOn is redsync on one server, or on several that know nothing of each other.
func redsyncOn(store string) *peer {
	return &peer{
		library: "github.com/go-redsync/redsync/v4", store: store, lease: ttl, left: leftInRedis,
		set:  fmt.Sprintf("`WithExpiry(%v)`; `WithTries` without an end; `ExtendContext` by the worker, each third of the expiry", ttl),
		loss: "`Mutex.Until`, by the local clock; `ExtendContext` returns an error",
		open: openRedsync,
	}
}

type redsyncLocker struct {
	clients []*goredis.Client
	rs      *redsync.Redsync
}

func openRedsync(addrs []string) (locker, error) {
	l := &redsyncLocker{}
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		c := openGoRedis(addr)
		l.clients, pools = append(l.clients, c), append(pools, redsyncpool.NewPool(c))
	}
	l.rs = redsync.New(pools...)
	return l, nil
}

func (l *redsyncLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	m := l.rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	h := &redsyncHolding{m: m}
	until := m.Until()
	h.until.Store(&until)
	h.renewal = renewing(func(ctx context.Context) error {
		ok, err := m.ExtendContext(ctx)
		if err == nil && !ok {
			err = errors.New("not extended")
		}
		if err == nil {
			until := m.Until()
			h.until.Store(&until)
		}
		return err
	})
	return h, nil
}

func (l *redsyncLocker) close() {
	for _, c := range l.clients {
		c.Close()
	}
}

type redsyncHolding struct {
	m     *redsync.Mutex
	until atomic.Pointer[time.Time] // a copy, since the library's own must not be read while it extends
	*renewal
}

func (h *redsyncHolding) trusted() bool { return !h.failed() && time.Now().Before(*h.until.Load()) }
func (h *redsyncHolding) token() int64  { return 0 }

func (h *redsyncHolding) unlock() error {
	h.stop()
	ok, err := h.m.UnlockContext(context.Background())
	if err == nil && !ok {
		err = errors.New("not held any more")
	}
	return err
}

var rueidislockPeer = &peer{
	library: "github.com/redis/rueidis", store: "redis", lease: ttl, left: leftInRedis,
	set:  fmt.Sprintf("`rueidislock`: `KeyValidity` %v; `KeyMajority` 1 and `NoLoopTracking`, as for one server of version 7", ttl),
	loss: "the context of the hold ends",
	open: func(addrs []string) (locker, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: addrs}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl,
		})
		return rueidisLocker{l}, err
	},
}

type rueidisLocker struct{ l rueidislock.Locker }

func (l rueidisLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	held, cancel, err := l.l.WithContext(ctx, name)
	return &rueidisHolding{held, cancel}, err
}

func (l rueidisLocker) close() { l.l.Close() }

type rueidisHolding struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (h *rueidisHolding) trusted() bool { return h.ctx.Err() == nil }
func (h *rueidisHolding) token() int64  { return 0 }

// unlock does not learn what became of the release.
func (h *rueidisHolding) unlock() error {
	h.cancel()
	return errors.New("nothing is said of the release")
}
