package zookeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// An ensemble is three servers.
type ensemble []*servertest.Server

func (e ensemble) url(params string) string {
	var hosts []string
	for _, s := range e {
		hosts = append(hosts, s.Addr)
	}
	return "zk://" + strings.Join(hosts, ",") + params
}

// led returns the leader and the others, once all serve.
func (e ensemble) led(t *testing.T) (leader *servertest.Server, others ensemble) {
	t.Helper()
	servertest.Until(t, "all servers follow one leader", func() bool {
		leader, others = nil, nil
		for _, s := range e {
			switch s.ZooKeeperMode() {
			case "leader":
				leader = s
			case "follower":
				others = append(others, s)
			}
		}
		return leader != nil && len(others) == len(e)-1
	})
	return leader, others
}

// TestEnsemble takes servers away and brings them back, one fault after the other.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := ensemble(servertest.ZooKeeperEnsemble(t, 3, "-Dreadonlymode.enabled=true"))
	for _, fault := range []struct {
		name string
		run  func(t *testing.T, e ensemble)
	}{
		{"one of three is down", oneDown},
		{"the leader changes while a lock is held", leaderChanges},
		{"a server is cut off from the others", cutOff},
		{"the quorum is lost and comes back", quorumLost},
	} {
		if !t.Run(fault.name, func(t *testing.T) { fault.run(t, e) }) {
			return // the next fault expects that this one is over
		}
	}
}

func oneDown(t *testing.T, e ensemble) {
	_, others := e.led(t)
	others[0].Kill()
	d := open(t, e.url("?session=30s"))
	c := claim("one-down")
	enter(t, d, c, true)
	_, err := driver.Open(t.Context(), "zk://"+others[0].Addr)
	refuses(t, "the one that is down", err, true, true, "cannot connect to zookeeper at "+others[0].Addr)
	others[0].Start()
	e.led(t)
	leave(t, d, c)
	if traits := d.Traits(); !traits.Failover || !strings.Contains(traits.Notes[0], "3 servers that vote: 1 of them may fail") {
		t.Errorf("traits of three servers: failover %v, %q", traits.Failover, traits.Remarks())
	}
}

func leaderChanges(t *testing.T, e ensemble) {
	leader, _ := e.led(t)
	c := client(t, e.url("?session=30s"))
	l := lock(t, c, "leader")
	d := open(t, e.url("?session=30s"))
	leader.Kill()
	killed := l.Deadline()
	next := claim("leader")
	enter(t, d, next, false)
	leader.Start()
	e.led(t)
	servertest.Until(t, "the lease has been renewed, or is lost", func() bool {
		return l.Deadline().After(killed.Add(time.Second)) || l.Check() != nil
	})
	if err := l.Check(); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
	p, err := turn(t.Context(), d, next)
	if err != nil || p.Ticket*1024 <= l.Token()/1024*1024 {
		t.Errorf("the next claim = %+v, %v; want a ticket above that of token %d", p, err, l.Token())
	}
	leave(t, d, next)
}

// A server that has lost the others still answers reads and pings for a while, which must not prolong any lease.
func cutOff(t *testing.T, e ensemble) {
	leader, others := e.led(t)
	const session = 30 * time.Second // time enough for the others to agree again, even on a busy machine
	d := open(t, "zk://"+others[0].Addr+"?session="+session.String())
	c := claim("cut-off")
	enter(t, d, c, true)
	others[1].Pause()
	leader.Pause()
	paused := time.Now()
	reads := 0
	servertest.Until(t, "the server has noticed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		p, err := d.Enter(ctx, c)
		if err != nil {
			return time.Since(paused) > 2*time.Second
		}
		reads++
		if left := session - time.Since(paused); p.TTL > left {
			t.Errorf("%v after it was cut off the server has prolonged the lease to %v; want at most %v",
				time.Since(paused), p.TTL, left)
		}
		return time.Since(paused) > 2*time.Second
	})
	if reads == 0 {
		t.Errorf("no read was answered; want the case that some are")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := d.Renew(ctx, []*driver.Claim{c})[0].Err; err == nil || errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal without a quorum = %v; want an error that is not ErrGone", err)
	}
	leader.Resume()
	others[1].Resume()
	e.led(t)
	if err := reached(t, func() error { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err }); err != nil {
		t.Fatalf("renewal = %v; want the claim to stand", err)
	}
	leave(t, d, c)
}

func quorumLost(t *testing.T, e ensemble) {
	leader, others := e.led(t)
	d := open(t, e.url("?session=60s"))
	c, waiter := claim("quorum"), claim("quorum")
	enter(t, d, c, true)
	enter(t, d, waiter, false)
	waited := make(chan error, 1)
	go func() {
		p, err := turn(t.Context(), d, waiter)
		if err == nil && p.Ticket != waiter.Ticket {
			err = errors.New("it has another ticket")
		}
		waited <- err
	}()
	leader.Kill()
	others[0].Kill()
	servertest.Until(t, "the last server serves reads alone", func() bool { return others[1].ZooKeeperMode() == "read-only" })
	_, err := driver.Open(t.Context(), "zk://"+others[1].Addr)
	refuses(t, "a read-only server", err, true, true, "the server is read-only: it has lost the others of its ensemble")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := d.Enter(ctx, claim("quorum")); err == nil || errors.Is(err, driver.ErrGone) {
		t.Errorf("enter without a quorum = %v; want an error of the connection, or of the context", err)
	}
	if err := d.Renew(ctx, []*driver.Claim{c})[0].Err; err == nil || errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal without a quorum = %v; want an error of the connection, or of the context", err)
	}
	leader.Start()
	others[0].Start()
	e.led(t)
	servertest.Until(t, "the claim is renewed", func() bool { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err == nil })
	enter(t, d, c, true)
	leave(t, d, c)
	if err := <-waited; err != nil {
		t.Errorf("the waiter: %v", err)
	}
}

// A server that is killed and started again still has the claims, and the session goes on.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	d := open(t, "zk://"+s.Addr+"?session=60s")
	c, waiter := claim("restart"), claim("restart")
	enter(t, d, c, true)
	enter(t, d, waiter, false)
	s.Kill()
	s.Restart()
	if err := reached(t, func() error { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err }); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if p := enter(t, d, waiter, false); p.Ahead != 1 {
		t.Errorf("the waiter's place is %+v; want one ahead", p)
	}
	leave(t, d, c)
	p, err := turn(t.Context(), d, waiter)
	if err != nil || p.Ticket != waiter.Ticket {
		t.Errorf("the waiter = %+v, %v; want ticket %d", p, err, waiter.Ticket)
	}
	leave(t, d, waiter)
	if p := enter(t, d, claim("restart"), true); p.Ticket <= waiter.Ticket {
		t.Errorf("the ticket is %d after %d; want it to rise", p.Ticket, waiter.Ticket)
	}
}
