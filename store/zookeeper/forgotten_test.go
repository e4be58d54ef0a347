package zookeeper_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// leaseOver waits until a claim's lease is over for the driver.
func leaseOver(t *testing.T, d driver.Driver, c *driver.Claim) {
	t.Helper()
	servertest.Until(t, "the lease is over", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return errors.Is(d.Renew(ctx, []*driver.Claim{c})[0].Err, driver.ErrGone)
	})
}

// A lease may run out while the driver looks for the claim's node. Then the node exists and must go, even if the first
// request to remove it is lost: nobody else removes it while the session lives.
func TestLeaseEndsDuringLookup(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"its client knows the ticket": true, "its client knows of no ticket": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, 0)
			f.lasts = longest // so that the connection is not given up while an answer is held back
			d := open(t, "zk://"+f.addr)
			c := claim("lookup")
			c.TTL, c.Wait = 3*time.Second, 3*time.Second
			enter(t, d, c, true)
			if !known {
				c.Ticket = 0
			}
			looks, held := make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(held) })
			defer goOn()
			var look, remove sync.Once
			f.tells(func(op int32) (code int32) {
				switch op {
				case listChildren:
					look.Do(func() { close(looks); <-held })
				case deleteNode:
					remove.Do(func() { code = lose })
				}
				return code
			})
			done := make(chan error, 1)
			go func() {
				_, err := d.Enter(t.Context(), c)
				done <- err
			}()
			select {
			case <-looks:
			case err := <-done:
				t.Fatalf("enter = %v; want it to look for the node", err)
			}
			leaseOver(t, d, c)
			goOn()
			err := <-done
			if known && !errors.Is(err, driver.ErrGone) {
				t.Errorf("enter of a claim whose lease is over = %v; want ErrGone", err)
			}
			if !known {
				c.TTL, c.Wait = time.Minute, time.Minute
				enter(t, d, c, true)
				leave(t, d, c)
			}
			servertest.Until(t, "no node is left", func() bool { return f.count() == 0 })
		})
	}
}

// The server refuses the first request for a lock that was never used, since the node's parent is missing. The lease may run
// out before the driver knows that. The second request has a lease of its own, and its node does not outlive it.
func TestLeaseEndsBeforeParents(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0)
	f.lasts = longest // so that the connection is not given up while an answer is held back
	d := open(t, "zk://"+f.addr)
	c := claim("parents")
	c.TTL, c.Wait = 3*time.Second, 3*time.Second
	asks, held := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(held) })
	defer goOn()
	var ask sync.Once
	f.tells(func(op int32) (code int32) {
		if op == createNode {
			ask.Do(func() { close(asks); <-held; code = noNode })
		}
		return code
	})
	done := make(chan error, 1)
	go func() {
		p, err := d.Enter(t.Context(), c)
		if err == nil && !p.Holds {
			err = errors.New("it waits")
		}
		done <- err
	}()
	<-asks
	leaseOver(t, d, c)
	goOn()
	if err := <-done; err != nil {
		t.Errorf("enter = %v; want a claim that holds", err)
	}
	servertest.Until(t, "no node is left when the lease is over", func() bool { return f.count() == 0 })
}
