//go:build unix

package main

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// openGoZooKeeper connects go-zookeeper. Each of its locks has a node of its own, so goroutines may share the session.
func openGoZooKeeper(addr string, ttl time.Duration) (library, error) {
	c, events, err := zk.Connect([]string{addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return goZooKeeperLibrary{c}, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

type goZooKeeperLibrary struct{ c *zk.Conn }

func (l goZooKeeperLibrary) mutex(name string) mutex {
	return goZooKeeperMutex{l.c, "/" + name}
}

func (l goZooKeeperLibrary) close() { l.c.Close() }

type goZooKeeperMutex struct {
	c    *zk.Conn
	path string
}

// lock only checks ctx at its beginning, since the library takes no context.
func (m goZooKeeperMutex) lock(ctx context.Context) (held, error) {
	l := zk.NewLock(m.c, m.path, zk.WorldACL(zk.PermAll))
	done := make(chan error, 1)
	go func() { done <- l.Lock() }()
	select {
	case err := <-done:
		return l, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
