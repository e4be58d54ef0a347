//go:build unix

package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	_ "github.com/stilelock/stile/store/redis" // the scheme redis
)

// openGoRedis makes a client with room for a connection per goroutine, more than by default, so that its callers do not
// wait for each other.
func openGoRedis(addr string) *goredis.Client {
	stopLogging()
	return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: contentionSize})
}

// stopLogging keeps go-redis from logging each failed connection.
var stopLogging = sync.OnceFunc(func() { goredis.SetLogger(silence{}) })

type silence struct{}

// Printf is the method that go-redis calls to log.
func (silence) Printf(context.Context, string, ...any) {}

type redsyncLibrary struct {
	clients []*goredis.Client
	rs      *redsync.Redsync
	opts    []redsync.Option
	ttl     time.Duration
}

func openRedsync(addrs []string, ttl time.Duration, opts ...redsync.Option) library {
	var clients []*goredis.Client
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		client := openGoRedis(addr)
		clients, pools = append(clients, client), append(pools, redsyncpool.NewPool(client))
	}
	opts = append(opts, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
	return &redsyncLibrary{clients, redsync.New(pools...), opts, ttl}
}

func (l *redsyncLibrary) mutex(name string) mutex {
	return redsyncMutex{l.rs.NewMutex(name, l.opts...), l}
}

func (l *redsyncLibrary) close() {
	for _, c := range l.clients {
		c.Close()
	}
}

type redsyncMutex struct {
	m *redsync.Mutex
	l *redsyncLibrary
}

func (m redsyncMutex) lock(ctx context.Context) (held, error) { return m, m.m.LockContext(ctx) }

func (m redsyncMutex) Unlock() error {
	ok, err := m.m.UnlockContext(context.Background())
	if err == nil && !ok {
		err = errors.New("redsync: the lock was lost")
	}
	return err
}

func (m redsyncMutex) extend(ctx context.Context) error {
	_, err := m.m.ExtendContext(ctx)
	return err
}

type redislockLibrary struct {
	client *goredis.Client
	locks  *redislock.Client
	opts   *redislock.Options
	ttl    time.Duration
}

func openRedislock(addr string, ttl, delay time.Duration) library {
	client := openGoRedis(addr)
	return &redislockLibrary{
		client, redislock.New(client), &redislock.Options{RetryStrategy: redislock.LinearBackoff(delay)}, ttl,
	}
}

func (l *redislockLibrary) mutex(name string) mutex { return redislockMutex{name, l} }
func (l *redislockLibrary) close()                  { l.client.Close() }

type redislockMutex struct {
	name string
	l    *redislockLibrary
}

// lock sets a deadline: without one the library gives up after a ttl.
func (m redislockMutex) lock(ctx context.Context) (held, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	lock, err := m.l.locks.Obtain(ctx, m.name, m.l.ttl, m.l.opts)
	return redislockHeld{lock, m.l.ttl}, err
}

type redislockHeld struct {
	lock *redislock.Lock
	ttl  time.Duration
}

func (h redislockHeld) Unlock() error { return h.lock.Release(context.Background()) }

func (h redislockHeld) extend(ctx context.Context) error { return h.lock.Refresh(ctx, h.ttl, nil) }

func openRueidislock(addr string, ttl time.Duration) (library, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    ttl,
	})
	if err != nil {
		return nil, err
	}
	return rueidisLibrary{l}, nil
}

type rueidisLibrary struct{ l rueidislock.Locker }

func (l rueidisLibrary) mutex(name string) mutex { return rueidisMutex{name, l.l} }
func (l rueidisLibrary) close()                  { l.l.Close() }

type rueidisMutex struct {
	name string
	l    rueidislock.Locker
}

func (m rueidisMutex) lock(ctx context.Context) (held, error) {
	_, cancel, err := m.l.WithContext(ctx, m.name)
	return rueidisHeld(cancel), err
}

type rueidisHeld context.CancelFunc

func (h rueidisHeld) Unlock() error {
	h()
	return nil
}
