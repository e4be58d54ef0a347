//go:build unix

package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// The bare limit of a lock on etcd's own client: a key that comes and goes.

const (
	etcdBare  = "bare key"
	etcdKeeps = "bare key, a lease each"
)

func openEtcdBare(addr string, ttl time.Duration) (library, error) {
	return openEtcdFloor(addr, ttl, false)
}

// openEtcdKeeps uses a lease for each key.
func openEtcdKeeps(addr string, ttl time.Duration) (library, error) {
	return openEtcdFloor(addr, ttl, true)
}

func openEtcdFloor(addr string, ttl time.Duration, own bool) (library, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: givenUp, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	l := etcdFloor{c: c, ttl: ttl, own: own}
	if l.lease, err = l.grant(); err != nil {
		c.Close()
		return nil, err
	}
	return l, nil
}

type etcdFloor struct {
	c     *clientv3.Client
	ttl   time.Duration
	lease clientv3.LeaseID
	own   bool // each key has a lease of its own
}

// grant makes a lease, which the client then keeps alive as for any of its users.
func (l etcdFloor) grant() (clientv3.LeaseID, error) {
	ctx := context.Background()
	made, err := l.c.Grant(ctx, int64(l.ttl/time.Second))
	if err != nil {
		return 0, err
	}
	_, err = l.c.KeepAlive(ctx, made.ID)
	return made.ID, err
}

func (l etcdFloor) mutex(name string) mutex {
	m := etcdFloorMutex{l, name}
	if l.own {
		var err error
		if m.l.lease, err = l.grant(); err != nil {
			return brokenMutex{err}
		}
	}
	return m
}

func (l etcdFloor) close() { l.c.Close() }

type etcdFloorMutex struct {
	l   etcdFloor
	key string
}

// lock makes the key, or waits until it is gone.
func (m etcdFloorMutex) lock(ctx context.Context) (held, error) {
	made, err := m.l.c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(m.key), "=", 0)).
		Then(clientv3.OpPut(m.key, "", clientv3.WithLease(m.l.lease))).Commit()
	if err != nil || made.Succeeded {
		return m, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for told := range m.l.c.Watch(ctx, m.key, clientv3.WithRev(made.Header.Revision+1)) {
		if err := told.Err(); err != nil {
			return nil, err
		}
		for _, e := range told.Events {
			if e.Type == clientv3.EventTypeDelete {
				return m, nil
			}
		}
	}
	return nil, context.Cause(ctx)
}

func (m etcdFloorMutex) Unlock() error {
	_, err := m.l.c.Delete(context.Background(), m.key)
	return err
}
