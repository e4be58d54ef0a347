//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulDelay is how long Consul withholds a lock after its holder's session has ended (lock-delay).
const consulDelay = time.Second

// consulLocker is Lock of Consul's own client. As `consul lock NAME` does, it takes the key NAME/.lock.
type consulLocker struct {
	client *api.Client
	held   *api.Lock
}

func openConsul(_ context.Context, addr string) (locker, error) {
	c, err := api.NewClient(&api.Config{Address: addr})
	return &consulLocker{client: c}, err
}

func (l *consulLocker) lock(_ context.Context, name string) (string, error) {
	_, err := l.take(name, false)
	return "-", err
}

func (l *consulLocker) try(_ context.Context, name string) (string, bool, error) {
	ok, err := l.take(name, true)
	return "-", ok, err
}

func (l *consulLocker) take(name string, try bool) (bool, error) {
	var err error
	l.held, err = l.client.LockOpts(&api.LockOptions{
		Key: name + "/.lock", SessionTTL: session.String(), LockDelay: consulDelay,
		LockTryOnce: try, LockWaitTime: 100 * time.Millisecond,
	})
	if err != nil {
		return false, err
	}
	lost, err := l.held.Lock(nil)
	if err == nil && lost == nil && !try {
		err = errors.New("the lock was not granted")
	}
	return lost != nil, err
}

func (l *consulLocker) unlock(context.Context) error { return l.held.Unlock() }

func (l *consulLocker) close() {}
