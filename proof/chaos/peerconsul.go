//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulDelay is how long Consul withholds a lock whose session has ended (lock-delay), by default.
const consulDelay = 15 * time.Second

// consulKeeps is how long Consul keeps a session at most that is not renewed: it ends a session within twice its TTL.
const consulKeeps = 2 * ttl

var consulPeer = &peer{
	library: "github.com/hashicorp/consul/api", store: "consul", lease: consulKeeps + consulDelay, left: leftInConsul,
	set:  fmt.Sprintf("`SessionTTL` %v; the lock-delay is Consul's own, %v", ttl, consulDelay),
	loss: "the channel that `Lock` returns is closed",
	open: func(addrs []string) (locker, error) {
		c, err := api.NewClient(&api.Config{Address: addrs[0]})
		return consulLocker{c}, err
	},
}

type consulLocker struct{ c *api.Client }

func (l consulLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	lock, err := l.c.LockOpts(&api.LockOptions{Key: name, SessionTTL: ttl.String()})
	if err != nil {
		return nil, err
	}
	lost, err := lock.Lock(ctx.Done())
	if err == nil && lost == nil {
		err = errors.New("not had")
	}
	return &consulHolding{lock, lost}, err
}

func (l consulLocker) close() {}

type consulHolding struct {
	lock *api.Lock
	lost <-chan struct{}
}

func (h *consulHolding) trusted() bool { return !over(h.lost) }
func (h *consulHolding) token() int64  { return 0 }
func (h *consulHolding) unlock() error { return h.lock.Unlock() }

// leftInConsul returns the keys and the sessions of Consul.
func leftInConsul(s *store) (version string, kept []string) {
	// The client keeps its connections.
	c, err := api.NewClient(&api.Config{Address: s.servers[0].Addr, HttpClient: http.DefaultClient})
	if err != nil {
		return "Consul", []string{err.Error()}
	}
	self, selfErr := c.Agent().Self()
	keys, _, keysErr := c.KV().Keys("", "", nil)
	sessions, _, sessionsErr := c.Session().List(nil)
	if err := errors.Join(selfErr, keysErr, sessionsErr); err != nil {
		return "Consul", []string{err.Error()}
	}
	for _, session := range sessions {
		kept = append(kept, "session "+session.Name)
	}
	return fmt.Sprintf("Consul %v, %d servers", self["Config"]["Version"], len(s.servers)), append(kept, keys...)
}
