//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/stilelock/stile/internal/servertest"
)

// An etcdStage is an etcd server that is looked into.
type etcdStage struct {
	t      servertest.TB
	addr   string
	client *clientv3.Client
}

// newest returns the key of a lock that was made last, and its lease, and how many keys there are.
func (s *etcdStage) newest(name string) (lease clientv3.LeaseID, size int, err error) {
	r, err := s.client.Get(context.Background(), name+"/", clientv3.WithLastCreate()...)
	if err != nil || r.Count == 0 {
		return 0, 0, err
	}
	return clientv3.LeaseID(r.Kvs[0].Lease), int(r.Count), nil
}

func (s *etcdStage) size(name string, want int) error {
	return until(fmt.Sprintf("%d keys under %s/", want, name), func() (bool, error) {
		_, n, err := s.newest(name)
		return n == want, err
	})
}

// revoked has an operator revoke the lease of a client that waits, then the holder release, then another client come.
func (s *etcdStage) revoked(open opener) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list, end, err := openAll(ctx, 3, open, s.addr)
	if err != nil {
		return "", false, err
	}
	defer end()
	name := newScene("").name
	if _, err := list[0].lock(ctx, name); err != nil {
		return "", false, err
	}
	waiter := begins(ctx, list[1], name)
	if err := s.size(name, 2); err != nil {
		return "", false, err
	}
	// A waiter that watches the key before its own has read the list before.
	pause(window)
	lease, _, err := s.newest(name)
	if err != nil {
		return "", false, err
	}
	if _, err := s.client.Revoke(ctx, lease); err != nil {
		return "", false, err
	}
	early := waiter.answer(window)
	if err := list[0].unlock(ctx); err != nil {
		return "", false, err
	}
	late := waiter.answer(prompt)
	third := begins(ctx, list[2], name).answer(prompt)
	seen := fmt.Sprintf("%s; then a third client %s", twofold(early, late), tells(third))
	return seen, early == nil || late == nil && third == nil, nil
}

// twice has two goroutines of one client take one lock.
func twice(open func() (first, second locker, end func(), err error)) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, b, end, err := open()
	if err != nil {
		return "", false, err
	}
	defer end()
	name := newScene("").name
	if _, err := a.lock(ctx, name); err != nil {
		return "", false, err
	}
	second := begins(ctx, b, name).answer(prompt)
	return "the first goroutine holds; the second " + tells(second), second == nil, nil
}

// oneSession makes two mutexes of one session, as two goroutines of a program have them.
func (s *etcdStage) oneSession() (first, second locker, end func(), err error) {
	c, session, err := newSession(s.addr)
	if err != nil {
		return nil, nil, nil, err
	}
	a := &mutexLocker{client: c, session: session}
	b := &mutexLocker{client: c, session: session}
	return a, b, a.close, nil
}

// late delays the answers to what keeps a lock alive, then the requests for ever, and compares when the holder learns that
// it has lost the lock with when another client gets it.
func (s *etcdStage) late(hold func(ctx context.Context, addr, name string) (over <-chan struct{}, end func(), err error)) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proxy := servertest.NewProxy(s.t, s.addr)
	name := newScene("").name
	over, end, err := hold(ctx, proxy.Addr, name)
	if err != nil {
		return "", false, err
	}
	defer end()
	other, err := openMutex(ctx, s.addr)
	if err != nil {
		return "", false, err
	}
	defer other.close()
	next := begins(ctx, other, name)

	// Requests pass and their answers do not, for half a lease; then both stand, and then the answers arrive.
	proxy.Freeze(false, true)
	pause(session / 2)
	proxy.Freeze(true, true)
	pause(session / 3)
	proxy.Freeze(true, false)

	var granted, told time.Time
	limit := time.NewTimer(5 * session)
	defer limit.Stop()
	for granted.IsZero() || told.IsZero() {
		select {
		case <-next.done:
			if next.err != nil {
				return "", false, next.err
			}
			granted, next.done = time.Now(), nil
		case <-over:
			told, over = time.Now(), nil
		case <-limit.C:
			return "", false, fmt.Errorf("granted to another: %v; the holder told: %v", !granted.IsZero(), !told.IsZero())
		}
	}
	gap := granted.Sub(told).Round(10 * time.Millisecond)
	if gap < 0 {
		return fmt.Sprintf("the holder is told %v after another client holds", -gap), true, nil
	}
	return fmt.Sprintf("the holder is told %v before another client holds", gap), false, nil
}

// holdMutex holds etcd's own mutex.
func holdMutex(ctx context.Context, addr, name string) (<-chan struct{}, func(), error) {
	c, s, err := newSession(addr)
	if err != nil {
		return nil, nil, err
	}
	// The session's close would wait for an answer.
	return s.Done(), func() { c.Close() }, concurrency.NewMutex(s, name).Lock(ctx)
}

// stileEtcd opens stile at an etcd server.
func stileEtcd(ctx context.Context, addr string) (locker, error) {
	return lockers["stile"](ctx, "etcd://"+addr+"?prefix=")
}

// holdStile holds stile's lock.
func holdStile(ctx context.Context, addr, name string) (<-chan struct{}, func(), error) {
	l, err := stileEtcd(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	_, err = l.lock(ctx, name)
	if err != nil {
		l.close()
		return nil, nil, err
	}
	// Its close would wait for an answer, and what is open ends with the process.
	return l.(*stileLocker).held.Context().Done(), func() {}, nil
}

// oneClient makes two locks of one client of stile's.
func (s *etcdStage) oneClient() (first, second locker, end func(), err error) {
	l, err := stileEtcd(context.Background(), s.addr)
	if err != nil {
		return nil, nil, nil, err
	}
	other := *l.(*stileLocker)
	return l, &other, l.close, nil
}

// etcdFlaws are those of the clients of etcd, and of its own lock service.
func etcdFlaws(t servertest.TB) ([]flaw, error) {
	var stages []*etcdStage
	for _, s := range []*servertest.Server{servertest.Etcd(t), servertest.EtcdOld(t)} {
		c, err := dialEtcd(s.Addr)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		stages = append(stages, &etcdStage{t, s.Addr, c})
	}
	now, old := stages[0], stages[1]
	revoked := func(s *etcdStage, open opener) func() (string, bool, error) {
		return func() (string, bool, error) { return s.revoked(open) }
	}
	return []flaw{
		{number: 1, what: "the lease of a waiting client is revoked", plays: []play{
			{"v3lock of etcd 3.4", fails, revoked(old, openService)},
			{"v3lock of etcd 3.7", passes, revoked(now, openService)},
			{"etcd mutex", passes, revoked(now, openMutex)},
			{"stile", passes, revoked(now, stileEtcd)},
			{"stile, etcd 3.4", passes, revoked(old, stileEtcd)},
		}},
		{number: 2, what: "two goroutines of one client take one lock", plays: []play{
			{"etcd mutex, one session", fails, func() (string, bool, error) { return twice(now.oneSession) }},
			{"stile", passes, func() (string, bool, error) { return twice(now.oneClient) }},
		}},
		{number: 3, what: "answers come late, then nothing passes", plays: []play{
			{"etcd mutex", fails, func() (string, bool, error) { return now.late(holdMutex) }},
			{"stile", passes, func() (string, bool, error) { return now.late(holdStile) }},
		}},
	}, nil
}
