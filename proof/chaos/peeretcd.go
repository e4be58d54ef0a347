//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

var concurrencyPeer = &peer{
	library: "go.etcd.io/etcd/client/v3", store: "etcd", lease: ttl, left: leftInEtcd,
	set:   fmt.Sprintf("`concurrency`: `WithTTL(%d)`; a session for each waiter, a new one when it is done", int(ttl.Seconds())),
	loss:  "`Session.Done` is closed",
	token: "the revision in `Mutex.Header`",
	open: func(addrs []string) (locker, error) {
		c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
		return &etcdLocker{c: c}, err
	},
}

// An etcdLocker has a session for each waiter: a session has one key per name, so two of its mutexes would hold together.
type etcdLocker struct {
	c        *clientv3.Client
	sessions [waiters]*concurrency.Session
}

func (l *etcdLocker) lock(ctx context.Context, waiter int, name string) (holding, error) {
	s := l.sessions[waiter]
	if s == nil || over(s.Done()) {
		var err error
		if s, err = concurrency.NewSession(l.c, concurrency.WithTTL(int(ttl.Seconds()))); err != nil {
			return nil, err
		}
		l.sessions[waiter] = s
	}
	m := concurrency.NewMutex(s, name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return &etcdHolding{s, m}, nil
}

// close revokes the sessions, if the server answers in time.
func (l *etcdLocker) close() {
	for _, s := range l.sessions {
		if s != nil {
			_ = s.Close()
		}
	}
	l.c.Close()
}

type etcdHolding struct {
	s *concurrency.Session
	m *concurrency.Mutex
}

func (h *etcdHolding) trusted() bool { return !over(h.s.Done()) }
func (h *etcdHolding) token() int64  { return h.m.Header().Revision }
func (h *etcdHolding) unlock() error { return h.m.Unlock(context.Background()) }

// over reports whether a channel is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// leftInEtcd returns the keys of etcd.
func leftInEtcd(s *store) (version string, kept []string) {
	ctx, cancel := context.WithTimeout(context.Background(), leeway)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.servers[0].Addr}, Logger: zap.NewNop()})
	if err != nil {
		return "etcd", []string{err.Error()}
	}
	defer c.Close()
	all, err := c.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return "etcd", []string{err.Error()}
	}
	for _, kv := range all.Kvs {
		kept = append(kept, string(kv.Key))
	}
	var told struct {
		Version string `json:"etcdserver"`
	}
	err = getJSON(ctx, "http://"+s.servers[0].Addr+"/version", &told)
	if err != nil {
		return "etcd", append(kept, err.Error())
	}
	return fmt.Sprintf("etcd %s, %d servers", told.Version, len(s.servers)), kept
}

// getJSON reads the answer of a server at a URL.
func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}
