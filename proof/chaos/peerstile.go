//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stilelock/stile"
)

// stileOn is stile, driven like the peers.
func stileOn(store string, left leftover) *peer {
	lease := ttl
	if store == "consul" {
		lease = consulKeeps
	}
	return &peer{
		library: "github.com/stilelock/stile", store: store, lease: lease, left: left,
		set:   fmt.Sprintf("TTL %v", ttl),
		loss:  "`Lease.Check`, by the local clock",
		token: "`Lease.Token`",
		open: func(addrs []string) (locker, error) {
			scheme := map[string]string{"zookeeper": "zk"}[store]
			if scheme == "" {
				scheme, _, _ = strings.Cut(store, "-")
			}
			url := scheme + "://" + strings.Join(addrs, ",")
			if scheme == "zk" {
				url += "?session=" + ttl.String()
			}
			if scheme == "redlock" {
				url += "?max_ttl=10s"
			}
			c, err := stile.Open(context.Background(), url, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
			return stileLocker{c}, err
		},
	}
}

type stileLocker struct{ c *stile.Client }

func (l stileLocker) lock(ctx context.Context, _ int, name string) (holding, error) {
	lease, err := l.c.Mutex(name).Lock(ctx)
	return stileHolding{lease}, err
}

func (l stileLocker) close() { l.c.Close() }

type stileHolding struct{ *stile.Lease }

func (h stileHolding) trusted() bool { return h.Check() == nil }
func (h stileHolding) token() int64  { return h.Token() }
func (h stileHolding) unlock() error { return h.Unlock() }
