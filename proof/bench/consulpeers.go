//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"
)

// openConsulAPI connects Consul's own client. Its lock makes a session for each acquisition, unless it is given one.
func openConsulAPI(addr string, ttl time.Duration) (library, error) {
	return openConsul(addr, ttl, false)
}

func openConsulShared(addr string, ttl time.Duration) (library, error) {
	return openConsul(addr, ttl, true)
}

func openConsul(addr string, ttl time.Duration, shared bool) (library, error) {
	c, err := api.NewClient(&api.Config{Address: addr})
	if err != nil {
		return nil, err
	}
	return consulLibrary{c, ttl, shared}, nil
}

type consulLibrary struct {
	c      *api.Client
	ttl    time.Duration
	shared bool
}

func (l consulLibrary) mutex(name string) mutex {
	o := &api.LockOptions{Key: name + "/.lock", SessionTTL: l.ttl.String(), LockDelay: time.Millisecond}
	if l.shared {
		id, _, err := l.c.Session().Create(&api.SessionEntry{TTL: l.ttl.String(), LockDelay: time.Millisecond}, nil)
		if err != nil {
			return brokenMutex{err}
		}
		o.Session = id
	}
	lock, err := l.c.LockOpts(o)
	if err != nil {
		return brokenMutex{err}
	}
	return consulMutex{lock}
}

func (l consulLibrary) close() {}

type consulMutex struct{ l *api.Lock }

func (m consulMutex) lock(ctx context.Context) (held, error) {
	lost, err := m.l.Lock(ctx.Done())
	if err == nil && lost == nil {
		err = errors.Join(ctx.Err(), errors.New("consul: the lock was not had"))
	}
	return m, err
}

func (m consulMutex) Unlock() error { return m.l.Unlock() }

// A consulFloor is the bare limit of a lock on a key of Consul: one write to take it, one to release it, and a blocking
// query while another client has it.
type consulFloor struct {
	c   *api.Client
	ttl time.Duration
}

func openConsulFloor(addr string, ttl time.Duration) (library, error) {
	c, err := api.NewClient(&api.Config{Address: addr})
	return consulFloor{c, ttl}, err
}

func (l consulFloor) mutex(name string) mutex {
	id, _, err := l.c.Session().Create(&api.SessionEntry{TTL: l.ttl.String(), LockDelay: time.Millisecond}, nil)
	if err != nil {
		return brokenMutex{err}
	}
	return consulFloorMutex{l.c.KV(), &api.KVPair{Key: name, Session: id}}
}

func (l consulFloor) close() {}

type consulFloorMutex struct {
	kv   *api.KV
	pair *api.KVPair
}

func (m consulFloorMutex) lock(ctx context.Context) (held, error) {
	for {
		if ok, _, err := m.kv.Acquire(m.pair, nil); ok || err != nil {
			return m, err
		}
		for index := uint64(0); ; {
			is, about, err := m.kv.Get(m.pair.Key, (&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
			if err != nil {
				return nil, err
			}
			if index = about.LastIndex; is == nil || is.Session == "" {
				break
			}
		}
	}
}

func (m consulFloorMutex) Unlock() error {
	ok, _, err := m.kv.Release(m.pair, nil)
	if err == nil && !ok {
		err = errors.New("consul: the key is another's")
	}
	return err
}
