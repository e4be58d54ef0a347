//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"
)

// Consul allows no shorter time for a session. It ends one that is not renewed at some time within twice as long, and then
// keeps its locks back for the lock-delay.
const (
	consulSession = 10 * time.Second
	consulDelay   = 15 * time.Second
)

var consulPeer = &peer{
	library: "github.com/hashicorp/consul/api", store: "consul", lease: 2*consulSession + consulDelay, left: leftInConsul,
	set:  fmt.Sprintf("`SessionTTL` %v, the least that Consul allows; a lock-delay of %v, as it is by default", consulSession, consulDelay),
	loss: "the channel that `Lock` returns is closed",
	open: func(addrs []string) (locker, error) {
		c, err := api.NewClient(&api.Config{Address: addrs[0]})
		return consulLocker{c}, err
	},
}

type consulLocker struct{ c *api.Client }

func (l consulLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	lock, err := l.c.LockOpts(&api.LockOptions{Key: name, SessionTTL: consulSession.String()})
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
	c, err := api.NewClient(&api.Config{Address: s.servers[0].Addr})
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
