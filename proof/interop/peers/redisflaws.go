//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A redisStage is a Redis server on which locks are a string each, or several for a majority.
type redisStage struct {
	setting *setting
	servers []*servertest.Server
	addrs   string // with commas between
}

func (w *setting) stage(servers ...*servertest.Server) *redisStage {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return &redisStage{w, servers, strings.Join(list, ",")}
}

// everywhere runs a command on all servers.
func (s *redisStage) everywhere(command ...string) {
	for _, server := range s.servers {
		server.Redis(command)
	}
}

// endless has a client take the lock without a time, as redis-py does unless it is told one, and die holding it.
func (s *redisStage) endless(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	name := newScene("").name
	holder, err := s.setting.python("redis-py", "endless", s.addrs).open()
	if err != nil {
		return "", false, around(err)
	}
	defer holder.close()
	if _, err := holder.lock(ctx, name); err != nil {
		return "", false, around(err)
	}
	holder.kill()
	waiter, err := open(ctx, s.addrs)
	if err != nil {
		return "", false, err
	}
	defer waiter.close()
	const enough = 4 * session
	answer := begins(ctx, waiter, name).answer(enough)
	if errors.Is(answer, errNoAnswer) {
		return fmt.Sprintf("the waiter still waits after %v", enough), true, nil
	}
	return "the waiter " + tells(answer), answer == nil, nil
}

// hash has a hash stand where the lock's string would, as Redisson's lock does, and then deletes it.
func (s *redisStage) hash(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	name := newScene("").name
	s.everywhere("HSET", name, "another client", "1")
	l, err := open(ctx, s.addrs)
	if err != nil {
		return "", false, err
	}
	defer l.close()
	a := begins(ctx, l, name)
	early := a.answer(prompt)
	s.everywhere("DEL", name)
	if !errors.Is(early, errNoAnswer) {
		return "the client " + tells(early) + " at once", early == nil, nil
	}
	late := a.answer(patience)
	// A client that was refused, and was slow to say so, is as right as one that waited.
	return "the client waits, and " + tells(late) + " when the hash is gone", errors.Is(late, errNoAnswer), nil
}

// careless has an operator, or a library that does not compare, delete the key of a holder; then another client comes.
func (s *redisStage) careless(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, end, err := openAll(ctx, 3, open, s.addrs)
	if err != nil {
		return "", false, err
	}
	defer end()
	name := newScene("").name
	if _, err := list[0].lock(ctx, name); err != nil {
		return "", false, err
	}
	s.everywhere("DEL", name)
	since := time.Now()
	if _, err := list[1].lock(ctx, name); err != nil {
		return "", false, err
	}
	var delay time.Duration // until the holder was last seen to take itself for the holder
	told := until("the holder is told", func() (bool, error) {
		asked := time.Since(since)
		believes, err := list[0].(believer).believes()
		if believes {
			delay = asked
		}
		return !believes, err
	})
	if told != nil {
		return "another client holds; the holder is never told", true, nil
	}
	seen := fmt.Sprintf("another client holds; the holder is told after %v", delay.Round(10*time.Millisecond))
	if err := list[0].unlock(ctx); err == nil {
		return seen + ", but not when it gives the lock back", true, nil
	}
	if _, ok, err := list[2].(trier).try(ctx, name); ok || err != nil {
		return seen + "; what it gives back is the other's", true, err
	}
	return seen + ", and gives back nothing", delay > session, nil
}

func (w *setting) redisFlaws(t servertest.TB) ([]flaw, error) {
	stage := w.stage(servertest.Redis(t))
	at := func(scenario func(opener) (string, bool, error), open opener) func() (string, bool, error) {
		return func() (string, bool, error) { return scenario(open) }
	}
	redisPy, node := w.python("redis-py", "redis-py", stage.addrs).opener, w.node("node-redlock", stage.addrs).opener
	return []flaw{
		{number: 13, what: "redis-py takes the lock without a time, and dies", plays: []play{
			{"redsync", fails, at(stage.endless, openRedsync)},
			{"redis-py", fails, at(stage.endless, redisPy)},
			{"node-redlock", fails, at(stage.endless, node)},
			{"stile", passes, at(stage.endless, stileSetNX)},
		}},
		{number: 14, what: "a hash, as Redisson's lock is one, has the lock's name", plays: []play{
			{"redsync", passes, at(stage.hash, openRedsync)},
			{"redislock", passes, at(stage.hash, openRedislock)},
			{"redis-py", passes, at(stage.hash, redisPy)},
			{"node-redlock", passes, at(stage.hash, node)},
			{"stile", passes, at(stage.hash, stileSetNX)},
		}},
		{number: 15, what: "the holder's key is deleted by one who does not compare", plays: []play{
			{"redsync", passes, at(stage.careless, openRedsync)},
			{"redislock", passes, at(stage.careless, openRedislock)},
			{"stile", passes, at(stage.careless, stileSetNX)},
		}},
	}, nil
}

// stileSetNX opens stile with the layout of the other libraries, at a server's address.
func stileSetNX(ctx context.Context, addr string) (locker, error) {
	return lockers["stile"](ctx, "redis://"+addr+"?layout=setnx")
}
