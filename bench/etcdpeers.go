//go:build unix

package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// openConcurrency connects etcd's own mutex. Its key is the session's lease, so that two goroutines of one session hold
// the same lock at once; each mutex needs a session of its own, which is how its own tests use it.
func openConcurrency(addr string, ttl time.Duration) (library, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: givenUp, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return concurrencyLibrary{c, ttl}, nil
}

type concurrencyLibrary struct {
	client *clientv3.Client
	ttl    time.Duration
}

func (l concurrencyLibrary) mutex(name string) mutex {
	s, err := concurrency.NewSession(l.client, concurrency.WithTTL(int(l.ttl.Seconds())))
	if err != nil {
		return brokenMutex{err}
	}
	return concurrencyMutex{concurrency.NewMutex(s, name)}
}

func (l concurrencyLibrary) close() { l.client.Close() }

type concurrencyMutex struct{ m *concurrency.Mutex }

func (m concurrencyMutex) lock(ctx context.Context) (held, error) { return m, m.m.Lock(ctx) }

func (m concurrencyMutex) Unlock() error { return m.m.Unlock(context.Background()) }
