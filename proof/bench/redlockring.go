//go:build unix

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// bareRing has no lock: processes form a ring, and each passes a number on to the next.
const bareRing = "bare lists"

const aboutRing = "no library: processes in a ring, each of which passes a number on to the next, by a list on all servers at once, by rueidis: RPUSH, " +
	"which is over with a majority, and BLPOP, which waits for one; no lease, and a process that dies breaks the ring"

// A redlockRing is the bare limit of passing on by a majority of servers.
type redlockRing struct {
	*redlockFloor
	blocked []rueidis.Client // on these the process waits
}

func openRedlockRing(addrs []string, ttl time.Duration) (library, error) {
	floor, err := openRedlockFloor(addrs, ttl)
	if err != nil {
		return nil, err
	}
	l := &redlockRing{redlockFloor: floor.(*redlockFloor)}
	for _, addr := range addrs {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1,
		})
		if err != nil {
			l.close()
			return nil, err
		}
		l.blocked = append(l.blocked, c)
	}
	return l, nil
}

func (l *redlockRing) close() {
	for _, c := range l.blocked {
		c.Close()
	}
	l.redlockFloor.close()
}

// mutex takes the next place in the ring. The first place has the number to pass on.
func (l *redlockRing) mutex(name string) mutex {
	ctx, first := context.Background(), l.blocked[0]
	place, err := first.Do(ctx, first.B().Incr().Key(name+"/places").Build()).AsInt64()
	if err != nil {
		return brokenMutex{err}
	}
	m := &ringMutex{
		l: l, here: fmt.Sprintf("%s/%d", name, place), next: fmt.Sprintf("%s/%d", name, place%throngSize+1), got: make(chan arrival, len(l.asks)),
	}
	for _, c := range l.blocked {
		go m.receive(c)
	}
	if place == 1 {
		if err := m.push(m.here, 1); err != nil {
			return brokenMutex{err}
		}
	}
	return m
}

// A ringMutex is one place in the ring.
type ringMutex struct {
	l          *redlockRing
	here, next string // the lists of this place and of the next
	got        chan arrival
	turn       int64 // the newest number received
	from       int   // how many servers it came from
}

// An arrival is a number from one server, or an error.
type arrival struct {
	turn int64
	err  error
}

// receive waits for numbers on one server until the client is closed.
func (m *ringMutex) receive(c rueidis.Client) {
	for {
		var a arrival
		said, err := c.Do(context.Background(), c.B().Blpop().Key(m.here).Timeout(0).Build()).AsStrSlice()
		if a.err = err; err == nil {
			a.turn, a.err = strconv.ParseInt(said[1], 10, 64)
		}
		m.got <- a
		if a.err != nil {
			return
		}
	}
}

func (m *ringMutex) lock(ctx context.Context) (held, error) {
	for {
		select {
		case a := <-m.got:
			if a.err != nil {
				return nil, a.err
			}
			if a.turn > m.turn {
				m.turn, m.from = a.turn, 0
			}
			if m.from++; m.from == len(m.l.asks)/2+1 {
				return m, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Unlock makes the next place hold.
func (m *ringMutex) Unlock() error { return m.push(m.next, m.turn+1) }

func (m *ringMutex) push(list string, turn int64) error {
	return m.l.most(func(c rueidis.Client) error {
		return c.Do(context.Background(), c.B().Rpush().Key(list).Element(strconv.FormatInt(turn, 10)).Build()).Error()
	})
}
