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

// A redlockFloor is the bare limit of a Redlock with tickets on this client: the requests of a lock, to all servers at
// once, until a majority has answered. A server that is down at the beginning is left out.
type redlockFloor struct {
	asks []chan func(rueidis.Client) // each server's requests, in order
	need int                         // the size of a majority
	ttl  time.Duration
}

const bareFloor = "no library: to all servers at once, by rueidis, a script that does SET NX and sets the last ticket of the name, and one that " +
	"compares and deletes; each is over with a majority; it neither waits nor renews"

var bareTicket = rueidis.NewLuaScript(`
local set = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if set then redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2], 'GET') end
return set`)

func openRedlockFloor(addrs []string, ttl time.Duration) (library, error) {
	l := &redlockFloor{need: len(addrs)/2 + 1, ttl: ttl}
	var down []error
	for _, addr := range addrs {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
		})
		if err != nil {
			if down = append(down, err); len(down) > len(addrs)-l.need {
				l.close()
				return nil, errors.Join(down...)
			}
			continue
		}
		asks := make(chan func(rueidis.Client), contentionSize)
		l.asks = append(l.asks, asks)
		go func() {
			defer client.Close()
			for ask := range asks {
				ask(client)
			}
		}()
	}
	return l, nil
}

func (l *redlockFloor) mutex(name string) mutex { return redlockFloorMutex{name, l} }

func (l *redlockFloor) close() {
	for _, asks := range l.asks {
		close(asks)
	}
}

// most sends a request to all servers, and returns when a majority has answered. It does not wait for the others.
func (l *redlockFloor) most(ask func(c rueidis.Client) error) error {
	answers := make(chan error, len(l.asks))
	for _, asks := range l.asks {
		asks <- func(c rueidis.Client) { answers <- ask(c) }
	}
	var failed []error
	for done := 0; done < l.need; {
		if err := <-answers; err == nil {
			done++
		} else if failed = append(failed, err); len(failed) > len(l.asks)-l.need {
			return errors.Join(failed...)
		}
	}
	return nil
}

type redlockFloorMutex struct {
	name string
	l    *redlockFloor
}

func (m redlockFloorMutex) lock(ctx context.Context) (held, error) {
	id, keys := rand.Text(), []string{m.name, m.name + "/ticket"}
	args := []string{id, strconv.FormatInt(m.l.ttl.Milliseconds(), 10), strconv.FormatInt(time.Now().UnixMicro(), 10)}
	err := m.l.most(func(c rueidis.Client) error { return bareTicket.Exec(ctx, c, keys, args).Error() })
	return redlockFloorHeld{m, id}, err
}

type redlockFloorHeld struct {
	redlockFloorMutex
	id string
}

func (h redlockFloorHeld) Unlock() error {
	return h.l.most(func(c rueidis.Client) error {
		n, err := bareLeave.Exec(context.Background(), c, []string{h.name}, []string{h.id}).AsInt64()
		if err == nil && n != 1 {
			err = errors.New("the key is not there any more")
		}
		return err
	})
}
