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

// oneDown has a client take a lock on three servers of which one is down, and then another that is known to be able to.
func oneDown(t servertest.TB, open func(addrs string) opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var servers []*servertest.Server
	var list []string
	for range 3 {
		s := servertest.Redis(t)
		servers, list = append(servers, s), append(list, s.Addr)
	}
	addrs := strings.Join(list, ",")
	l, err := open(addrs)(ctx, addrs)
	if err != nil {
		return "", false, err
	}
	defer l.close()
	other, err := openRedsync(ctx, addrs)
	if err != nil {
		return "", false, err
	}
	defer other.close()
	servers[2].Kill()
	name := newScene("").name
	since := time.Now()
	told := begins(ctx, l, name).answer(2 * patience)
	took := time.Since(since)
	next := begins(ctx, other, name).answer(window)
	seen := fmt.Sprintf("the client %s after %v; then another client %s", tells(told), took.Round(10*time.Millisecond), tells(next))
	if told == nil {
		return seen, !errors.Is(next, errNoAnswer), nil
	}
	return seen, true, nil
}

func (w *setting) redlockFlaws(t servertest.TB) ([]flaw, error) {
	at := func(open func(addrs string) opener) func() (string, bool, error) {
		return func() (string, bool, error) { return oneDown(t, open) }
	}
	own := func(open opener) func(string) opener { return func(string) opener { return open } }
	return []flaw{
		{number: 16, what: "one of three servers is down", plays: []play{
			{"redsync", passes, at(own(openRedsync))},
			{"redlock-py", fails, at(func(addrs string) opener { return w.python("redlock-py", "redlock-py", addrs).opener })},
			{"node-redlock", passes, at(func(addrs string) opener { return w.node("node-redlock", addrs).opener })},
		}},
	}, nil
}
