//go:build unix

package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

// zkLocker is go-zookeeper's Lock.
type zkLocker struct {
	conn *zk.Conn
	held *zk.Lock
}

func openZooKeeper(_ context.Context, addr string) (locker, error) {
	conn, err := dialZooKeeper(addr)
	return &zkLocker{conn: conn}, err
}

// dialZooKeeper connects, and waits for a session.
func dialZooKeeper(addr string) (*zk.Conn, error) {
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-limit.C:
			conn.Close()
			return nil, errors.New("no session with the server")
		}
	}
}

// quiet drops go-zookeeper's log.
type quiet struct{}

// Printf is [zk.Logger].
func (quiet) Printf(string, ...any) {}

func (l *zkLocker) lock(_ context.Context, name string) (string, error) {
	l.held = zk.NewLock(l.conn, "/"+name, zk.WorldACL(zk.PermAll))
	if err := l.held.Lock(); err != nil {
		return "", err
	}
	return l.token(name)
}

// token returns the transaction that made this session's node, or "-" if there is none: the lock itself does not return it.
func (l *zkLocker) token(name string) (string, error) {
	children, _, err := l.conn.Children("/" + name)
	if err != nil {
		return "", err
	}
	for _, child := range children {
		_, stat, err := l.conn.Exists("/" + name + "/" + child)
		if err == nil && stat.EphemeralOwner == l.conn.SessionID() {
			return strconv.FormatInt(stat.Czxid, 10), nil
		}
	}
	return "-", nil
}

func (l *zkLocker) unlock(context.Context) error { return l.held.Unlock() }

func (l *zkLocker) close() { l.conn.Close() }
