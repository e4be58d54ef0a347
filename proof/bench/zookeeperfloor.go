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

// The bare limit of a lock on ZooKeeper: a node that comes and goes.

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

// lock makes the node, or waits until it is gone.
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

// Unlock removes the node if this process made one; a process that waited for its end has not.
func (m zooKeeperFloorMutex) Unlock() error {
	if err := m.c.Delete(m.path, -1); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// A zooKeeperLineFloor is the bare limit, in packets, of a queue on ZooKeeper: a client makes a sequential node, waits for
// the end of the node before it, and deletes its own.
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

// lock returns once the node before is gone. It does not check the nodes before that.
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
