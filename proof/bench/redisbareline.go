//go:build unix

package main

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// A bareQueue is the bare limit of a queue in Redis: a script to enter, which stores the claim's number and text, and a
// script to leave, which notifies the next claim. Nothing expires, no claim is found by another client, and numbers do not
// rise beyond the claims in the queue.
type bareQueue struct {
	client rueidis.Client
	name   string
	head   int // the first claim that has not left
	drawn  int
}

var (
	bareQueueEnter = rueidis.NewLuaScript(`redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return redis.call('ZRANK', KEYS[1], ARGV[1])`)

	bareQueueLeave = rueidis.NewLuaScript(`local was = redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
local head = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if head then redis.call('PUBLISH', KEYS[1] .. head, '') end
return was`)

	bareQueueLook = rueidis.NewLuaScript(`return redis.call('ZRANK', KEYS[1], ARGV[1])`)
)

func (b *bench) openBareQueue(context.Context) (line, error) {
	l, err := openRedisFloor(b.server.Addr, time.Hour, true)
	if err != nil {
		return nil, err
	}
	return &bareQueue{client: l.(*redisFloor).client, name: b.name()}, nil
}

func (q *bareQueue) close() { q.client.Close() }

func (q *bareQueue) keys() []string { return []string{q.name, q.name + "/texts"} }

func (q *bareQueue) enter(ctx context.Context) error {
	q.drawn++
	ttl := strconv.FormatInt(time.Hour.Milliseconds(), 10)
	return bareQueueEnter.Exec(ctx, q.client, q.keys(), []string{lineID(q.drawn), strconv.Itoa(q.drawn), lineRecord, ttl}).Error()
}

func (q *bareQueue) leave(ctx context.Context) error {
	q.head++
	return bareQueueLeave.Exec(ctx, q.client, q.keys(), []string{lineID(q.head)}).Error()
}

func (q *bareQueue) look(ctx context.Context, i int) error {
	return bareQueueLook.Exec(ctx, q.client, q.keys()[:1], []string{lineID(q.head + 1 + i)}).Error()
}
