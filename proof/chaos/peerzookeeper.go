//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stilelock/stile/internal/boottime"
)

var goZooKeeperPeer = &peer{
	library: "github.com/go-zookeeper/zk", store: "zookeeper", lease: ttl, left: leftInZooKeeper,
	endless: true,
	set:     fmt.Sprintf("session of %v; a wait cannot be given up; `Unlock` is called again after an error, for as long as the session is the same", ttl),
	loss:    "not of a lock; the state of the connection: it has the session in which the client had the lock",
	open: func(addrs []string) (locker, error) {
		c, err := openZooKeeper(addrs)
		return &zooKeeperLocker{c}, err
	},
}

// openZooKeeper connects and waits for a session.
func openZooKeeper(addrs []string) (*zk.Conn, error) {
	c, events, err := zk.Connect(addrs, ttl, zk.WithLogInfo(false), zk.WithLogger(noLogger{}))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return c, nil
}

type noLogger struct{}

// Printf is the method that go-zookeeper calls to log.
func (noLogger) Printf(string, ...any) {}

type zooKeeperLocker struct{ c *zk.Conn }

// lock leaves its goroutine waiting when ctx ends, since the library cannot end a wait. This only happens when the process
// is about to end.
func (l *zooKeeperLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	lock := zk.NewLock(l.c, "/"+name, zk.WorldACL(zk.PermAll))
	session, had := l.c.SessionID(), make(chan error, 1)
	go func() { had <- lock.Lock() }()
	select {
	case err := <-had:
		return &zooKeeperHolding{l.c, lock, session}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *zooKeeperLocker) close() { l.c.Close() }

type zooKeeperHolding struct {
	c       *zk.Conn
	lock    *zk.Lock
	session int64
}

func (h *zooKeeperHolding) trusted() bool {
	return h.c.State() == zk.StateHasSession && h.c.SessionID() == h.session
}

func (h *zooKeeperHolding) token() int64 { return 0 }

// unlock tries again after an error, since otherwise the node would stay as long as the session.
func (h *zooKeeperHolding) unlock() error {
	for end := boottime.Now() + recovers/2; ; time.Sleep(100 * time.Millisecond) {
		err := h.lock.Unlock()
		if err == nil || errors.Is(err, zk.ErrNoNode) || h.c.SessionID() != h.session || boottime.Now() > end {
			return err
		}
	}
}

// leftInZooKeeper returns the nodes of ZooKeeper, except its own.
func leftInZooKeeper(s *store) (version string, kept []string) {
	c, err := openZooKeeper([]string{s.servers[0].Addr})
	if err != nil {
		return "ZooKeeper", []string{err.Error()}
	}
	defer c.Close()
	if err := below(c, "/", &kept); err != nil {
		kept = append(kept, err.Error())
	}
	version, err = zooKeeperVersion(s.servers[0].Addr)
	if err != nil {
		kept = append(kept, err.Error())
	}
	return fmt.Sprintf("ZooKeeper %s, %d servers", version, len(s.servers)), kept
}

// zooKeeperVersion asks a server with a four-letter word. The library itself only understands an answer whose date looks as
// in a release of the project.
func zooKeeperVersion(addr string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, leeway)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(leeway)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	told, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(told), "version: ")
	if n := strings.IndexAny(rest, "-, \n"); n > 0 {
		return rest[:n], nil
	}
	return "", fmt.Errorf("srvr: %q has no version", told)
}

func below(c *zk.Conn, node string, kept *[]string) error {
	list, _, err := c.Children(node)
	for _, name := range list {
		at := path.Join(node, name)
		if at == "/zookeeper" {
			continue
		}
		*kept = append(*kept, at)
		if err := below(c, at, kept); err != nil {
			return err
		}
	}
	return err
}
