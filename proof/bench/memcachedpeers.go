//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func openMemcachedPlain(addr string, ttl time.Duration) (library, error) {
	return openStile("memcached://"+addr+"?layout=plain", ttl, 0, 0)
}

// openNaive locks by add and delete, as programs without a library do.
func openNaive(delay time.Duration) func(addr string, ttl time.Duration) (library, error) {
	return func(addr string, ttl time.Duration) (library, error) {
		c := memcache.New(addr)
		c.MaxIdleConns = contentionSize
		c.Timeout = givenUp
		return naiveLibrary{c, ttl, delay}, nil
	}
}

type naiveLibrary struct {
	c          *memcache.Client
	ttl, delay time.Duration
}

func (l naiveLibrary) mutex(name string) mutex { return naiveMutex{name, l} }
func (l naiveLibrary) close()                  { l.c.Close() }

type naiveMutex struct {
	name string
	l    naiveLibrary
}

func (m naiveMutex) lock(ctx context.Context) (held, error) {
	for {
		err := m.l.c.Add(&memcache.Item{Key: m.name, Value: []byte("locked"), Expiration: int32(m.l.ttl / time.Second)})
		if !errors.Is(err, memcache.ErrNotStored) {
			return m, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(m.l.delay):
		}
	}
}

func (m naiveMutex) Unlock() error { return m.l.c.Delete(m.name) }
