//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisHold is the value that rueidislock puts into one key: 24 random bytes, which need not be text.
type rueidisHold struct {
	client      rueidis.Client
	name, token string
}

var (
	rueidisRenew = rueidis.NewLuaScript(
		`if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE",KEYS[1],ARGV[2]) end return 0`)
	rueidisRelease = rueidis.NewLuaScript(
		`if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0`)
)

// openRueidis returns a locker that sets and compares one key through rueidis. The library's own rueidislock uses three
// keys for each name, none of which is the name itself, so no other library can share a lock with it.
func openRueidis(_ context.Context, addr string) (locker, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	take := func(ctx context.Context, name string) (hold, error) {
		token := make([]byte, 24)
		rand.Read(token)
		token[0] = 0 // no text has this byte
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
	args := []string{h.token, strconv.FormatInt(session.Milliseconds(), 10)}
	n, err := rueidisRenew.Exec(ctx, h.client, []string{h.name}, args).AsInt64()
	return refused(n == 1, err)
}

func (h rueidisHold) release(ctx context.Context) error {
	n, err := rueidisRelease.Exec(ctx, h.client, []string{h.name}, []string{h.token}).AsInt64()
	return refused(n == 1, err)
}

// rueidislockLocker is rueidislock's Locker.
type rueidislockLocker struct {
	locks  rueidislock.Locker
	cancel context.CancelFunc
}

func openRueidislock(_ context.Context, addr string) (locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyValidity: session,
	})
	return &rueidislockLocker{locks: locks}, err
}

func (l *rueidislockLocker) lock(ctx context.Context, name string) (string, error) {
	_, cancel, err := l.locks.WithContext(ctx, name)
	l.cancel = cancel
	return "-", err
}

func (l *rueidislockLocker) unlock(context.Context) error {
	l.cancel()
	return nil
}

func (l *rueidislockLocker) close() { l.locks.Close() }
