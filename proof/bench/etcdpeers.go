//go:build unix

package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// openConcurrency connects etcd's own mutex. The session's lease is a part of its key, so two goroutines of one session
// would hold the same lock at once. Each mutex has a session of its own, as in etcd's own tests.
func openConcurrency(addr string, ttl time.Duration) (library, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: givenUp, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return concurrencyLibrary{c, ttl}, nil
}

// openConcurrencyShared uses one session for all mutexes, no two of which may have the same name.
func openConcurrencyShared(addr string, ttl time.Duration) (library, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: givenUp, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		c.Close()
		return nil, err
	}
	return sessionLibrary{c, s}, nil
}

type sessionLibrary struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func (l sessionLibrary) mutex(name string) mutex {
	return concurrencyMutex{concurrency.NewMutex(l.session, name)}
}

func (l sessionLibrary) close() { l.client.Close() }

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
