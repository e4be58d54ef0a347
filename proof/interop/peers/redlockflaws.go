//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// oneDown has a client take a lock on three servers of which one is down, and then another that is known to be able to.
func (s *redisStage) oneDown(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := open(ctx, s.addrs)
	if err != nil {
		return "", false, err
	}
	defer l.close()
	other, err := openRedsync(ctx, s.addrs)
	if err != nil {
		return "", false, around(err)
	}
	defer other.close()
	s.servers[2].Kill()
	name := newScene("").name
	since := time.Now()
	told := begins(ctx, l, name).answer(2 * patience)
	took := time.Since(since)
	next := begins(ctx, other, name).answer(window)
	seen := fmt.Sprintf("the client %s after %v; then another client %s",
		tells(told), took.Round(10*time.Millisecond), tells(next))
	return seen, told != nil || !errors.Is(next, errNoAnswer), nil
}

// forgetful has two of three servers restart, with nothing on disk, under a holder; then another client comes, and is
// watched for a while.
func (s *redisStage) forgetful(open opener, watched time.Duration) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, end, err := openAll(ctx, 2, open, s.addrs)
	if err != nil {
		return "", false, err
	}
	defer end()
	name := newScene("").name
	// stile waits at first: the servers may have been restarted under others, a moment ago.
	if err := until("the first client holds", func() (bool, error) {
		_, err := list[0].lock(ctx, name)
		return err == nil, err
	}); err != nil {
		return "", false, err
	}
	for _, server := range s.servers[1:] {
		server.Kill()
		server.Restart()
	}
	next := begins(ctx, list[1], name).answer(watched)
	believes, err := list[0].(believer).believes()
	seen := "another client " + tells(next) + ", while the holder says that it holds"
	if !believes {
		seen = "another client " + tells(next) + ", while the holder says that it no longer holds"
	}
	return seen, believes && next == nil, err
}

func (w *setting) redlockFlaws(t servertest.TB) ([]flaw, error) {
	three := func(args ...string) *redisStage {
		var list []*servertest.Server
		for range 3 {
			list = append(list, servertest.Redis(t, args...))
		}
		return w.stage(list...)
	}
	// Each play has servers of its own, since it does them harm.
	at := func(
		scenario func(*redisStage, opener) (string, bool, error), open func(*redisStage) opener, args ...string,
	) func() (string, bool, error) {
		return func() (string, bool, error) {
			s := three(args...)
			return scenario(s, open(s))
		}
	}
	forgetful := func(watched time.Duration) func(*redisStage, opener) (string, bool, error) {
		return func(s *redisStage, open opener) (string, bool, error) { return s.forgetful(open, watched) }
	}
	own := func(open opener) func(*redisStage) opener { return func(*redisStage) opener { return open } }
	redlockPy := func(s *redisStage) opener { return w.python("redlock-py", "redlock-py", s.addrs).opener }
	node := func(s *redisStage) opener { return w.node("node-redlock", s.addrs).opener }
	oneDown := func(open func(*redisStage) opener) func() (string, bool, error) {
		return at((*redisStage).oneDown, open, durable...)
	}
	return []flaw{
		{number: 15, what: "the holder's keys are deleted by one who does not compare, on three servers", plays: []play{
			{"redsync", passes, at((*redisStage).careless, own(openRedsync))},
			{"stile", passes, at((*redisStage).careless, own(stileRedlock), durable...)},
		}},
		{number: 16, what: "one of three servers is down", plays: []play{
			{"redsync", passes, oneDown(own(openRedsync))},
			{"redlock-py", fails, oneDown(redlockPy)},
			{"node-redlock", passes, oneDown(node)},
			{"stile", passes, oneDown(own(stileRedlock))},
		}},
		{number: 17, what: "two of three servers restart with nothing on disk", plays: []play{
			{"redsync", fails, at(forgetful(patience), own(redsyncFor(unhurried)))},
			{"stile", passes, at(forgetful(2*window), own(stileRedlock))},
		}},
	}, nil
}

// stileRedlock opens stile at the addresses of several servers.
func stileRedlock(ctx context.Context, addrs string) (locker, error) {
	return lockers["stile"](ctx, "redlock://"+addrs+"?max_ttl="+(session+time.Second).String())
}
