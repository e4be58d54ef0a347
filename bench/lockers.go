//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/redis" // the scheme redis
)

// A library is one client of a lock library, connected to the server.
type library interface {
	// mutex returns the lock of a name, for one goroutine.
	mutex(name string) mutex
	close()
}

// A mutex is a lock as one library has it. It waits until it holds the lock or ctx ends.
type mutex interface {
	lock(ctx context.Context) (held, error)
}

// A held lock is released by Unlock.
type held interface {
	Unlock() error
}

// A contender is a library in one configuration.
type contender struct {
	name   string
	about  string
	renews bool     // held locks, of itself
	inside []string // commands that only its scripts run, so that they are no requests
	open   func(addr string, ttl time.Duration) (library, error)
}

const (
	ours = "stile"

	defaultTTL = 15 * time.Second
	linger     = 10 * time.Millisecond
	fastDelay  = 5 * time.Millisecond
	slowDelay  = 100 * time.Millisecond
	givenUp    = 5 * time.Second
)

var contenders = []contender{
	{
		ours, "defaults", true,
		[]string{"get", "set", "del", "time", "publish"},
		func(addr string, ttl time.Duration) (library, error) { return openStile(addr, ttl, 0, 0) },
	},
	{
		"stile, no turns", "Turn 1ns, so that every hand-over is through the store; otherwise defaults", true,
		[]string{"get", "set", "del", "time", "publish"},
		func(addr string, ttl time.Duration) (library, error) { return openStile(addr, ttl, 0, 1) },
	},
	{
		"stile, Linger", fmt.Sprintf("Linger %v, otherwise defaults", linger), true,
		[]string{"get", "set", "del", "time", "publish"},
		func(addr string, ttl time.Duration) (library, error) { return openStile(addr, ttl, linger, 0) },
	},
	{
		"redsync", "one pool (go-redis); its default delay, 50 to 250 ms at random; tries without end", false,
		[]string{"get", "del", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) { return openRedsync(addr, ttl), nil },
	},
	{
		"redsync, 5 ms", "as above with WithRetryDelay(5ms)", false,
		[]string{"get", "del", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) {
			return openRedsync(addr, ttl, redsync.WithRetryDelay(fastDelay)), nil
		},
	},
	{
		"redislock", "over go-redis; it has no default for waiting: LinearBackoff(100ms)", false,
		[]string{"get", "set", "del", "getrange", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) { return openRedislock(addr, ttl, slowDelay), nil },
	},
	{
		"redislock, 5 ms", "as above with LinearBackoff(5ms)", false,
		[]string{"get", "set", "del", "getrange", "pexpire"},
		func(addr string, ttl time.Duration) (library, error) { return openRedislock(addr, ttl, fastDelay), nil },
	},
	{
		"rueidislock", "KeyMajority 1 and NoLoopTracking, as its documentation says for one server; it waits for invalidations and has no delay", true,
		[]string{"get", "set", "del", "pexpireat"},
		openRueidislock,
	},
}

// lockSurely waits for a lock. A call that takes far too long is given up and made again: a library may miss its wake-up.
// The context is left as it is after success, since a library may hold the lock only as long as it lasts.
func lockSurely(m mutex) (held, error) {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		late := time.AfterFunc(givenUp, cancel)
		h, err := m.lock(ctx)
		if late.Stop() || err == nil {
			return h, err
		}
	}
}

// find returns the contender with a name.
func find(name string) contender {
	for _, c := range contenders {
		if c.name == name {
			return c
		}
	}
	panic("no contender is called " + name)
}

func openStile(addr string, ttl, linger, turn time.Duration) (library, error) {
	c, err := stile.Open(context.Background(), "redis://"+addr, &stile.Options{
		LockOptions: stile.LockOptions{TTL: ttl, Linger: linger}, Turn: turn,
	})
	if err != nil {
		return nil, err
	}
	return stileLibrary{c}, nil
}

type stileLibrary struct{ c *stile.Client }

func (l stileLibrary) mutex(name string) mutex { return stileMutex{l.c.Mutex(name)} }
func (l stileLibrary) close()                  { l.c.Close() }

type stileMutex struct{ l *stile.Lock }

func (m stileMutex) lock(ctx context.Context) (held, error) { return m.l.Lock(ctx) }

// openGoRedis makes a client with room for a connection per goroutine, more than it has by default, so that its callers
// do not wait for each other.
func openGoRedis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: crowdSize})
}

type redsyncLibrary struct {
	client *goredis.Client
	rs     *redsync.Redsync
	opts   []redsync.Option
	ttl    time.Duration
}

func openRedsync(addr string, ttl time.Duration, opts ...redsync.Option) library {
	client := openGoRedis(addr)
	opts = append(opts, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))
	return &redsyncLibrary{client, redsync.New(redsyncpool.NewPool(client)), opts, ttl}
}

func (l *redsyncLibrary) mutex(name string) mutex {
	return redsyncMutex{l.rs.NewMutex(name, l.opts...), l}
}
func (l *redsyncLibrary) close() { l.client.Close() }

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
