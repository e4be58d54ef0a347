//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// The cost of holding locks.

const (
	renewTTL = 5 * time.Second // short, so that the window contains some renewals
	leases   = 1000
)

func (b *bench) holding(among ...string) *measure {
	return &measure{
		key: "holding", title: "1,000 held leases, renewed", slow: true, each: b.idle + 2*b.settle,
		about: fmt.Sprintf("For %v, one process of its own holds 1,000 names with a ttl of %v. Where a library does not renew, as redsync and redislock, "+
			"a goroutine of the benchmark extends each lock every third of the ttl, as stile does. Commands are those inside scripts too. Bytes are of the heap after a collection, beyond what the process had with one "+
			"lock taken and released; stacks are those of goroutines, beside that.", b.idle, renewTTL),
		columns: []column{
			{"requests", "requests/s", 0}, {"commands", "commands/s", 0}, {"heap", "heap bytes/lease", 0},
			{"stack", "stack bytes/lease", 0}, {"goroutines", "goroutines/lease", 3},
		},
		rows: b.arena.among(b.holdingOne, among...),
	}
}

func (b *bench) holdingOne(c contender) (sample, error) {
	p, err := startChild(&task{
		Role: "keeper", Store: b.arena.key, Addr: b.addr, Contender: c.name, TTL: renewTTL, Name: b.name(), Size: leases,
		Warm: b.settle, Profile: b.profileFile("holding", c),
	})
	if err != nil {
		return nil, err
	}
	var (
		s    sample
		each footprint
	)
	if err = p.hearWord("holding"); err == nil {
		s, err = b.load(c, b.idle)
	}
	if err == nil {
		err = errors.Join(p.say("measure"), p.hear(&each))
	}
	if err := errors.Join(err, p.end(err == nil)); err != nil {
		return nil, err
	}
	s["heap"], s["stack"], s["goroutines"] = each.Heap, each.Stack, each.Goroutines
	return s, nil
}

// keeperRole holds locks until the parent asks for their cost.
func keeperRole(t *task, parent *lines) error {
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	one, err := lockSurely(lib.mutex(t.Name))
	if err == nil {
		err = one.Unlock()
	}
	if err != nil {
		return err
	}
	before := measureFootprint()
	all := make([]held, t.Size)
	for i := range all {
		if all[i], err = lockSurely(lib.mutex(fmt.Sprintf("%s/%d", t.Name, i))); err != nil {
			return err
		}
		if r, ok := all[i].(renewable); ok {
			go keep(ctx, r, t.TTL)
		}
	}
	time.Sleep(t.Warm)
	if err := errors.Join(parent.say("holding"), parent.hearWord("measure")); err != nil {
		return err
	}
	after := measureFootprint()
	runtime.KeepAlive(all)
	return parent.say(after.per(t.Size, before))
}

// A renewable lock must be renewed by its holder.
type renewable interface {
	extend(ctx context.Context) error
}

// keep renews a lock until ctx ends.
func keep(ctx context.Context, r renewable, ttl time.Duration) {
	every := time.NewTicker(ttl / 3)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if err := r.extend(ctx); err != nil && ctx.Err() == nil {
				panic(err)
			}
		case <-ctx.Done():
			return
		}
	}
}
