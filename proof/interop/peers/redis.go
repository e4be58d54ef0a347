//go:build unix

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// go-redis logs each failed connection.
func init() { logging.Disable() }

// between is the pause after which a waiting client of Redis asks again.
const between = 50 * time.Millisecond

// A hold is a held lock of a library for Redis.
type hold interface {
	renew(ctx context.Context) error
	release(ctx context.Context) error
}

var errTaken = errors.New("another client holds the lock")

// A keyLocker renews a lock of a library for Redis after each third of its time, since the library leaves that to the
// program.
type keyLocker struct {
	take func(ctx context.Context, name string) (hold, error) // errTaken if another client has it
	shut func()

	held    hold
	stop    context.CancelFunc
	renewed chan struct{} // closed when the renewal has ended
}

func (l *keyLocker) lock(ctx context.Context, name string) (string, error) {
	again := time.NewTicker(between)
	defer again.Stop()
	for {
		token, ok, err := l.try(ctx, name)
		if ok || err != nil {
			return token, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (l *keyLocker) try(ctx context.Context, name string) (string, bool, error) {
	held, err := l.take(ctx, name)
	if errors.Is(err, errTaken) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	l.keep(held)
	return "-", true, nil
}

func (l *keyLocker) keep(held hold) {
	ctx, cancel := context.WithCancel(context.Background())
	renewed := make(chan struct{})
	l.held, l.stop, l.renewed = held, cancel, renewed
	go func() {
		defer close(renewed)
		tick := time.NewTicker(session / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := held.renew(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return
			}
		}
	}()
}

func (l *keyLocker) unlock(ctx context.Context) error {
	l.stop()
	<-l.renewed
	return l.held.release(ctx)
}

func (l *keyLocker) close() {
	if l.stop != nil {
		l.stop()
	}
	l.shut()
}

// redsyncHold is redsync's Mutex.
type redsyncHold struct{ *redsync.Mutex }

// openRedsync is redsync at one server, or at several for a quorum.
func openRedsync(_ context.Context, addrs string) (locker, error) {
	var pools []redis.Pool
	var clients []*goredis9.Client
	for addr := range strings.SplitSeq(addrs, ",") {
		c := goredis9.NewClient(&goredis9.Options{Addr: addr})
		clients, pools = append(clients, c), append(pools, goredis.NewPool(c))
	}
	locks := redsync.New(pools...)
	take := func(ctx context.Context, name string) (hold, error) {
		m := locks.NewMutex(name, redsync.WithExpiry(session), redsync.WithTries(1))
		err := m.LockContext(ctx)
		_, taken := errors.AsType[*redsync.ErrTaken](err)
		_, shared := errors.AsType[*redsync.ErrNodeTaken](err) // held by several clients, none of which has a majority
		// redsync gives a server 5 % of the lease to answer, and asks it again later if it has not answered.
		if taken || shared || errors.Is(err, redsync.ErrFailed) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = errTaken
		}
		return redsyncHold{m}, err
	}
	return &keyLocker{take: take, shut: func() {
		for _, c := range clients {
			c.Close()
		}
	}}, nil
}

func (h redsyncHold) renew(ctx context.Context) error {
	ok, err := h.ExtendContext(ctx)
	return refused(ok, err)
}

func (h redsyncHold) release(ctx context.Context) error {
	ok, err := h.UnlockContext(ctx)
	return refused(ok, err)
}

func refused(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("the lock was not held")
	}
	return err
}

// redislockHold is redislock's Lock.
type redislockHold struct{ *redislock.Lock }

func openRedislock(_ context.Context, addr string) (locker, error) {
	c := goredis9.NewClient(&goredis9.Options{Addr: addr})
	locks := redislock.New(c)
	take := func(ctx context.Context, name string) (hold, error) {
		l, err := locks.Obtain(ctx, name, session, nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			err = errTaken
		}
		return redislockHold{l}, err
	}
	return &keyLocker{take: take, shut: func() { c.Close() }}, nil
}

func (h redislockHold) renew(ctx context.Context) error { return h.Refresh(ctx, session, nil) }

func (h redislockHold) release(ctx context.Context) error { return h.Release(ctx) }
