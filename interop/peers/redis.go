//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// between is how often a client of Redis asks again that waits.
const between = 50 * time.Millisecond

// A hold is a lock of a library for Redis that was taken.
type hold interface {
	renew(ctx context.Context) error
	release(ctx context.Context) error
}

var errTaken = errors.New("another client holds the lock")

// A keyLocker keeps what a library for Redis took by renewing it every third of its time, since the library leaves that
// to the program.
type keyLocker struct {
	take func(ctx context.Context, name string) (hold, error) // errTaken if another has it
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
			if err := held.renew(ctx); err != nil {
				return
			}
		}
	}()
}

// believes reports whether the program still renews, which is what it can know.
func (l *keyLocker) believes() (bool, error) {
	select {
	case <-l.renewed:
		return false, nil
	default:
		return true, nil
	}
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

// redsyncHold is Mutex of redsync.
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
		_, shared := errors.AsType[*redsync.ErrNodeTaken](err) // by several, of which none has a majority
		if taken || shared || errors.Is(err, redsync.ErrFailed) {
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

// redislockHold is Lock of redislock.
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

// rueidisHold is what rueidislock keeps at one key: 24 random bytes, which need not be text.
type rueidisHold struct {
	client      rueidis.Client
	name, token string
}

var (
	rueidisRenew   = rueidis.NewLuaScript(`if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE",KEYS[1],ARGV[2]) end return 0`)
	rueidisRelease = rueidis.NewLuaScript(`if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0`)
)

// openRueidis sets and compares one key with rueidis. Its own rueidislock keeps three keys for each name, none of which
// is the name, so no other library can meet it.
func openRueidis(_ context.Context, addr string) (locker, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	take := func(ctx context.Context, name string) (hold, error) {
		token := make([]byte, 24)
		rand.Read(token)
		token[0] = 0 // no text has it
		h := rueidisHold{c, name, string(token)}
		err := c.Do(ctx, c.B().Set().Key(name).Value(h.token).Nx().Px(session).Build()).Error()
		if rueidis.IsRedisNil(err) {
			err = errTaken
		}
		return h, err
	}
	return &keyLocker{take: take, shut: c.Close}, nil
}

func (h rueidisHold) renew(ctx context.Context) error {
	n, err := rueidisRenew.Exec(ctx, h.client, []string{h.name}, []string{h.token, fmt.Sprint(session.Milliseconds())}).AsInt64()
	return refused(n == 1, err)
}

func (h rueidisHold) release(ctx context.Context) error {
	n, err := rueidisRelease.Exec(ctx, h.client, []string{h.name}, []string{h.token}).AsInt64()
	return refused(n == 1, err)
}
