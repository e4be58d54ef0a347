//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A redisPublish is the bare limit of passing a name on by a queue in Redis: one script adds to a list, and another removes
// its head and notifies the next waiter's process by a message. There is no lease, and a dead process keeps its place.
type redisPublish struct {
	client rueidis.Client
	inbox  string // this process's channel
	stop   func()

	mu    sync.Mutex
	waits map[string]chan struct{} // by place
}

var (
	bareJoin = rueidis.NewLuaScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`)
	barePart = rueidis.NewLuaScript(`redis.call('LPOP', KEYS[1])
local next = redis.call('LINDEX', KEYS[1], 0)
if next then redis.call('PUBLISH', string.match(next, '%S+'), next) end`)
)

func openRedisPublish(addr string, _ time.Duration) (library, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return nil, err
	}
	l := &redisPublish{client: client, inbox: "bare/" + rand.Text(), waits: map[string]chan struct{}{}}
	own, release := client.Dedicate()
	l.stop = func() {
		own.Close()
		release()
		client.Close()
	}
	stands := make(chan struct{}, 1)
	lost := own.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { l.tell(m.Message) },
		OnSubscription: func(rueidis.PubSubSubscription) { stands <- struct{}{} },
	})
	if err := own.Do(context.Background(), own.B().Subscribe().Channel(l.inbox).Build()).Error(); err != nil {
		l.stop()
		return nil, err
	}
	select {
	case <-stands:
		return l, nil
	case err := <-lost:
		l.stop()
		return nil, errors.Join(err, errors.New("nothing is heard of the subscription"))
	}
}

func (l *redisPublish) mutex(name string) mutex { return redisPublishMutex{name, l} }
func (l *redisPublish) close()                  { l.stop() }

// tell makes a place hold.
func (l *redisPublish) tell(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.waits[place]; wait != nil {
		close(wait)
		delete(l.waits, place)
	}
}

// expect returns a channel that is closed when a place holds.
func (l *redisPublish) expect(place string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := make(chan struct{})
	l.waits[place] = wait
	return wait
}

type redisPublishMutex struct {
	name string
	l    *redisPublish
}

func (m redisPublishMutex) lock(ctx context.Context) (held, error) {
	place := m.l.inbox + " " + rand.Text()
	told := m.l.expect(place)
	n, err := bareJoin.Exec(ctx, m.l.client, []string{m.name}, []string{place}).AsInt64()
	if err != nil || n == 1 {
		m.l.tell(place)
		return m, err
	}
	select {
	case <-told:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m redisPublishMutex) Unlock() error {
	err := barePart.Exec(context.Background(), m.l.client, []string{m.name}, nil).Error()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
