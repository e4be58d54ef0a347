//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

// openGoRedis makes a client with the library's own settings, except that the library does not log each failed connection.
func openGoRedis(addr string) *goredis.Client {
	stopLogging()
	return goredis.NewClient(&goredis.Options{Addr: addr})
}

// stopLogging keeps go-redis from logging each failed connection.
var stopLogging = sync.OnceFunc(func() { goredis.SetLogger(silent{}) })

type silent struct{}

// Printf is the method that go-redis calls to log.
func (silent) Printf(context.Context, string, ...any) {}

// backoff is redislock's pause between two tries, which the library leaves to the caller.
const backoff = 100 * time.Millisecond

var redislockPeer = &peer{
	library: "github.com/bsm/redislock", store: "redis", lease: ttl, left: leftInRedis,
	set:  fmt.Sprintf("ttl %v; `LinearBackoff(%v)`; `Refresh` by the worker, each third of the ttl", ttl, backoff),
	loss: "`Lock.TTL` asks the server; `Refresh` returns an error",
	open: func(addrs []string) (locker, error) {
		c := openGoRedis(addrs[0])
		return &redislockLocker{c, redislock.New(c)}, c.Ping(context.Background()).Err()
	},
}

type redislockLocker struct {
	client *goredis.Client
	locks  *redislock.Client
}

// lock sets a deadline: without one the library gives up after a ttl.
func (l *redislockLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	late, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	lock, err := l.locks.Obtain(late, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)})
	if err != nil {
		return nil, err
	}
	h := &redislockHolding{lock: lock}
	h.renewal = renewing(func(ctx context.Context) error { return lock.Refresh(ctx, ttl, nil) })
	return h, nil
}

func (l *redislockLocker) close() { l.client.Close() }

type redislockHolding struct {
	lock *redislock.Lock
	*renewal
}

func (h *redislockHolding) trusted() bool {
	if h.failed() {
		return false
	}
	left, err := h.lock.TTL(context.Background())
	return err == nil && left > 0
}

func (h *redislockHolding) token() int64 { return 0 }

func (h *redislockHolding) unlock() error {
	h.stop()
	return h.lock.Release(context.Background())
}

// A renewal calls a library's own extension after each third of the ttl, until a call fails or it is stopped. Libraries
// that leave renewals to their caller are driven with it.
type renewal struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed after its last call

	mu  sync.Mutex // guards what follows
	err error
}

func renewing(extend func(ctx context.Context) error) *renewal {
	ctx, cancel := context.WithCancel(context.Background())
	r := &renewal{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for {
			if pause(ctx, ttl/3); ctx.Err() != nil {
				return
			}
			if err := extend(ctx); err != nil && !errors.Is(err, context.Canceled) {
				r.mu.Lock()
				r.err = err
				r.mu.Unlock()
				return
			}
		}
	}()
	return r
}

func (r *renewal) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

func (r *renewal) stop() {
	r.cancel()
	<-r.ended
}
