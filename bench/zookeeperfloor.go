//go:build unix

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// What no lock on ZooKeeper can be faster than: a node that comes and goes.

const zooKeeperBare = "bare node"

func openZooKeeperBare(addr string, ttl time.Duration) (library, error) {
	l, err := openGoZooKeeper(addr, ttl)
	if err != nil {
		return nil, err
	}
	return zooKeeperFloor{l.(goZooKeeperLibrary).c}, nil
}

type zooKeeperFloor struct{ c *zk.Conn }

func (l zooKeeperFloor) mutex(name string) mutex {
	return zooKeeperFloorMutex{l.c, "/bare-" + strings.ReplaceAll(name, "/", "-")}
}

func (l zooKeeperFloor) close() { l.c.Close() }

type zooKeeperFloorMutex struct {
	c    *zk.Conn
	path string
}

// lock makes the node, or returns once it is gone.
func (m zooKeeperFloorMutex) lock(ctx context.Context) (held, error) {
	_, err := m.c.Create(m.path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrNodeExists) {
		return m, err
	}
	there, _, changed, err := m.c.ExistsW(m.path)
	if err != nil || !there {
		return m, err
	}
	select {
	case e := <-changed:
		return m, e.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Unlock removes the node, unless there is none: who waited for its end has made no other.
func (m zooKeeperFloorMutex) Unlock() error {
	if err := m.c.Delete(m.path, -1); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}
