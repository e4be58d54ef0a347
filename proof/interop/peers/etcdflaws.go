//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/stilelock/stile"
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

// queue returns how many keys a lock has.
func (s *etcdStage) queue(name string) (int, error) {
	_, n, err := s.newest(name)
	return n, err
}

func (s *etcdStage) size(name string, want int) error {
	return until(fmt.Sprintf("%d keys under %s/", want, name), func() (bool, error) {
		n, err := s.queue(name)
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
	// A waiter that watches the key before its own has read the list before, as far as that can be seen from outside. One
	// that is slower must be right too.
	pause(window)
	lease, _, err := s.newest(name)
	if err != nil {
		return "", false, around(err)
	}
	if _, err := s.client.Revoke(ctx, lease); err != nil {
		return "", false, around(err)
	}
	early := waiter.answer(window)
	if err := list[0].unlock(ctx); err != nil {
		return "", false, err
	}
	late := waiter.answer(patience)
	next, err := third(ctx, list[2], name, late, s.queue)
	seen := fmt.Sprintf("%s; then a third client %s", twofold(early, late), tells(next))
	return seen, early == nil || late == nil && next == nil, err
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
	second := begins(ctx, b, name).answer(patience)
	return "the first goroutine holds; the second " + tells(second), second == nil, nil
}

// oneSession makes two mutexes of one session, as two goroutines of a program have them.
func (s *etcdStage) oneSession() (first, second locker, end func(), err error) {
	c, session, err := newSession(s.addr, session)
	if err != nil {
		return nil, nil, nil, err
	}
	a := &mutexLocker{client: c, session: session}
	b := &mutexLocker{client: c, session: session}
	return a, b, a.close, nil
}

// A lateHolder holds a lock with a lease of lateLease.
type lateHolder struct {
	over  <-chan struct{} // closed when it is told that its lock is lost
	holds func() bool     // whether it takes itself for the holder
	end   func()
}

// lateLease is long, so that the steps of the play, which are parts of it, are longer than a busy machine keeps anybody
// waiting.
const lateLease = 12 * time.Second

// late delays the answers to what keeps a lock alive, then the requests for ever, and asks the holder whether it holds when
// another client gets the lock.
func (s *etcdStage) late(hold func(ctx context.Context, addr, name string) (lateHolder, error)) (string, bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proxy := servertest.NewProxy(s.t, s.addr)
	other, err := openMutex(ctx, s.addr)
	if err != nil {
		return "", false, around(err)
	}
	defer other.close()
	name := newScene("").name
	begun := time.Now()
	holder, err := hold(ctx, proxy.Addr, name)
	if err != nil {
		return "", false, err
	}
	defer holder.end()
	next := begins(ctx, other, name)

	// Requests pass and their answers do not, until one request at least has kept the lease alive: that comes when a third
	// of the lease is over. Then both stand. The answers arrive before the lease is over that the holder knows of.
	proxy.Freeze(false, true)
	pause(time.Until(begun.Add(lateLease * 13 / 24)))
	proxy.Freeze(true, true)
	pause(time.Until(begun.Add(lateLease * 19 / 24)))
	proxy.Freeze(true, false)

	if err := next.answer(lateLease + patience); err != nil {
		return "", false, around(fmt.Errorf("another client, when the holder's lease is over: %w", err))
	}
	granted, wrong := time.Now(), holder.holds()
	limit := time.NewTimer(lateLease + patience)
	defer limit.Stop()
	select {
	case <-holder.over:
	case <-limit.C:
		return "the holder is never told", true, nil
	}
	if wrong {
		late := time.Since(granted).Round(10 * time.Millisecond)
		return fmt.Sprintf("the holder is told %v after another client holds", late), true, nil
	}
	return "the holder is told before another client holds", false, nil
}

// holdMutex holds etcd's own mutex.
func holdMutex(ctx context.Context, addr, name string) (lateHolder, error) {
	c, s, err := newSession(addr, lateLease)
	if err != nil {
		return lateHolder{}, err
	}
	holds := func() bool {
		select {
		case <-s.Done():
			return false
		default:
			return true
		}
	}
	// The session's close would wait for an answer.
	return lateHolder{s.Done(), holds, func() { c.Close() }}, concurrency.NewMutex(s, name).Lock(ctx)
}

// holdStile holds stile's lock.
func holdStile(ctx context.Context, addr, name string) (lateHolder, error) {
	l, err := openStile((*stile.Client).Mutex, lateLease)(ctx, etcdURL(addr))
	if err != nil {
		return lateHolder{}, err
	}
	_, err = l.lock(ctx, name)
	if err != nil {
		l.close()
		return lateHolder{}, err
	}
	held := l.(*stileLocker).held
	// Its close would wait for an answer, and what is open ends with the process.
	return lateHolder{held.Context().Done(), func() bool { return held.Check() == nil }, func() {}}, nil
}

// stileEtcd opens stile at an etcd server.
func stileEtcd(ctx context.Context, addr string) (locker, error) {
	return lockers["stile"](ctx, etcdURL(addr))
}

func etcdURL(addr string) string { return "etcd://" + addr + "?prefix=" }

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
