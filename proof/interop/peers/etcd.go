//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func dialEtcd(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// newSession creates a lease that the client keeps alive.
func newSession(addr string) (*clientv3.Client, *concurrency.Session, error) {
	c, err := dialEtcd(addr)
	if err != nil {
		return nil, nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(session.Seconds())))
	return c, s, err
}

// mutexLocker is Mutex of etcd's package concurrency.
type mutexLocker struct {
	client  *clientv3.Client
	session *concurrency.Session
	held    *concurrency.Mutex
}

func openMutex(_ context.Context, addr string) (locker, error) {
	c, s, err := newSession(addr)
	return &mutexLocker{client: c, session: s}, err
}

func (l *mutexLocker) lock(ctx context.Context, name string) (string, error) {
	l.held = concurrency.NewMutex(l.session, name)
	if err := l.held.Lock(ctx); err != nil {
		return "", err
	}
	return created(ctx, l.client, l.held.Key())
}

func (l *mutexLocker) try(ctx context.Context, name string) (string, bool, error) {
	l.held = concurrency.NewMutex(l.session, name)
	if err := l.held.TryLock(ctx); err != nil {
		if errors.Is(err, concurrency.ErrLocked) {
			err = nil
		}
		return "", false, err
	}
	token, err := created(ctx, l.client, l.held.Key())
	return token, true, err
}

func (l *mutexLocker) unlock(ctx context.Context) error { return l.held.Unlock(ctx) }

func (l *mutexLocker) close() {
	l.session.Close()
	l.client.Close()
}

// created returns the revision that created a key, or "-" if the key does not exist.
func created(ctx context.Context, c *clientv3.Client, key string) (string, error) {
	r, err := c.Get(ctx, key)
	if err != nil {
		return "", err
	}
	if len(r.Kvs) == 0 {
		return "-", nil
	}
	return strconv.FormatInt(r.Kvs[0].CreateRevision, 10), nil
}

// electionLocker is Election of etcd's package concurrency.
type electionLocker struct {
	client  *clientv3.Client
	session *concurrency.Session
	held    *concurrency.Election
}

func openElection(_ context.Context, addr string) (locker, error) {
	c, s, err := newSession(addr)
	return &electionLocker{client: c, session: s}, err
}

func (l *electionLocker) lock(ctx context.Context, name string) (string, error) {
	l.held = concurrency.NewElection(l.session, name)
	if err := l.held.Campaign(ctx, "here"); err != nil {
		return "", err
	}
	return strconv.FormatInt(l.held.Rev(), 10), nil
}

func (l *electionLocker) unlock(ctx context.Context) error { return l.held.Resign(ctx) }

func (l *electionLocker) close() {
	l.session.Close()
	l.client.Close()
}

// serviceLocker uses the server's own lock service through its gateway, as clients in other languages do.
type serviceLocker struct {
	base    string
	client  *clientv3.Client
	session *concurrency.Session
	key     string
}

func openService(_ context.Context, addr string) (locker, error) {
	c, s, err := newSession(addr)
	return &serviceLocker{base: "http://" + addr, client: c, session: s}, err
}

func (l *serviceLocker) lock(ctx context.Context, name string) (string, error) {
	key, err := serviceLock(ctx, l.base, name, l.session.Lease())
	if err != nil {
		return "", err
	}
	l.key = key
	return created(ctx, l.client, key)
}

func (l *serviceLocker) unlock(ctx context.Context) error {
	return post(ctx, l.base+"/v3/lock/unlock", map[string]any{"key": []byte(l.key)}, nil)
}

func (l *serviceLocker) close() {
	l.session.Close()
	l.client.Close()
}

// serviceLock calls Lock of the lock service and returns the key that the service reports as held.
func serviceLock(ctx context.Context, base, name string, lease clientv3.LeaseID) (string, error) {
	var answer struct{ Key []byte }
	request := map[string]any{"name": []byte(name), "lease": strconv.FormatInt(int64(lease), 10)}
	err := post(ctx, base+"/v3/lock/lock", request, &answer)
	return string(answer.Key), err
}

// post sends a JSON value and reads one.
func post(ctx context.Context, url string, question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}
