//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// What no lock on ZooKeeper can be faster than: a node that comes and goes.

const (
	zooKeeperBare = "bare node"
	zooKeeperLine = "bare nodes in sequence"
)

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

// A zooKeeperLineFloor is what no queue on ZooKeeper can need fewer packets than: who comes makes a node in sequence, hears of the end of
// the node with the number before, and deletes the own one.
type zooKeeperLineFloor struct{ c *zk.Conn }

func openZooKeeperLine(addr string, ttl time.Duration) (library, error) {
	l, err := openGoZooKeeper(addr, ttl)
	if err != nil {
		return nil, err
	}
	return zooKeeperLineFloor{l.(goZooKeeperLibrary).c}, nil
}

func (l zooKeeperLineFloor) mutex(name string) mutex {
	line := "/line-" + strings.ReplaceAll(name, "/", "-")
	if _, err := l.c.Create(line, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return brokenMutex{err}
	}
	return zooKeeperLineMutex{l.c, line + "/"}
}

func (l zooKeeperLineFloor) close() { l.c.Close() }

type zooKeeperLineMutex struct {
	c    *zk.Conn
	line string
}

// lock returns once the node before is gone. Nobody knows whether those before that are.
func (m zooKeeperLineMutex) lock(ctx context.Context) (held, error) {
	own, err := m.c.Create(m.line, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return nil, err
	}
	h := zooKeeperLineHeld{m.c, own}
	number, err := strconv.Atoi(own[len(m.line):])
	if err != nil || number == 0 {
		return h, err
	}
	there, _, changed, err := m.c.ExistsW(fmt.Sprintf("%s%010d", m.line, number-1))
	if err != nil || !there {
		return h, err
	}
	select {
	case e := <-changed:
		return h, e.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type zooKeeperLineHeld struct {
	c    *zk.Conn
	node string
}

func (h zooKeeperLineHeld) Unlock() error { return h.c.Delete(h.node, -1) }
