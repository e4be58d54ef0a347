//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// The bare limit of a lock library on rueidis: the two round trips of a lock, without queue, renewal or lease.

const (
	bareSetNX   = "bare SET NX"
	bareScripts = "bare scripts"
	bareList    = "bare BLPOP"
	barePublish = "bare PUBLISH"
)

var redisFloors = []contender{
	{
		bareSetNX, "no library: SET NX, and a script that compares and deletes, by rueidis; it neither waits nor renews", false,
		[]string{"get", "del"},
		func(addr string, ttl time.Duration) (library, error) { return openRedisFloor(addr, ttl, false) },
	},
	{
		bareScripts, "as above, with SET NX in a script too", false,
		[]string{"get", "del", "set"},
		func(addr string, ttl time.Duration) (library, error) { return openRedisFloor(addr, ttl, true) },
	},
	{
		bareExpire, "as " + bareSetNX + ", and one PEXPIRE each third of the ttl keeps each key alive, 32 of them in a script; nobody sees whose they are", true,
		[]string{"get", "del", "pexpire"}, openHeldFloor,
	},
	{
		bareList, "no library: a list with one element, by rueidis, which BLPOP takes and RPUSH puts back; no lease, and a process that dies " +
			"keeps the element", false, nil, openRedisList,
	},
	{
		barePublish, "no library: a list of those who wait, by rueidis, that a script adds to and another takes from, which tells the next process by a " +
			"message; no lease, and a process that dies keeps its place", false, nil, openRedisPublish,
	},
}

var (
	bareEnter = rueidis.NewLuaScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`)
	bareLeave = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
)

type redisFloor struct {
	client rueidis.Client
	ttl    time.Duration
	script bool // SET NX runs in a script
}

func openRedisFloor(addr string, ttl time.Duration, script bool) (library, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return nil, err
	}
	return &redisFloor{client, ttl, script}, nil
}

func (l *redisFloor) mutex(name string) mutex { return redisFloorMutex{name, l} }
func (l *redisFloor) close()                  { l.client.Close() }

type redisFloorMutex struct {
	name string
	l    *redisFloor
}

func (m redisFloorMutex) lock(ctx context.Context) (held, error) {
	l, id := m.l, rand.Text()
	var err error
	if l.script {
		err = bareEnter.Exec(ctx, l.client, []string{m.name}, []string{id, strconv.FormatInt(l.ttl.Milliseconds(), 10)}).Error()
	} else {
		err = l.client.Do(ctx, l.client.B().Set().Key(m.name).Value(id).Nx().Px(l.ttl).Build()).Error()
	}
	return redisFloorHeld{m, id}, err
}

type redisFloorHeld struct {
	redisFloorMutex
	id string
}

func (h redisFloorHeld) Unlock() error {
	n, err := bareLeave.Exec(context.Background(), h.l.client, []string{h.name}, []string{h.id}).AsInt64()
	if err == nil && n != 1 {
		err = errors.New("the key is not there any more")
	}
	return err
}

func openRedisList(addr string, _ time.Duration) (library, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return nil, err
	}
	return redisList{client}, nil
}

type redisList struct{ client rueidis.Client }

func (l redisList) close() { l.client.Close() }

// mutex puts the element into the list, unless another client has.
func (l redisList) mutex(name string) mutex {
	ctx, c := context.Background(), l.client
	err := c.Do(ctx, c.B().Set().Key(name+"/made").Value("1").Nx().Build()).Error()
	if rueidis.IsRedisNil(err) {
		return redisListMutex{name, c}
	}
	if err == nil {
		err = c.Do(ctx, c.B().Rpush().Key(name).Element("1").Build()).Error()
	}
	if err != nil {
		return brokenMutex{err}
	}
	return redisListMutex{name, c}
}

type redisListMutex struct {
	name   string
	client rueidis.Client
}

func (m redisListMutex) lock(ctx context.Context) (held, error) {
	return m, m.client.Do(ctx, m.client.B().Blpop().Key(m.name).Timeout(0).Build()).Error()
}

func (m redisListMutex) Unlock() error {
	return m.client.Do(context.Background(), m.client.B().Rpush().Key(m.name).Element("1").Build()).Error()
}
