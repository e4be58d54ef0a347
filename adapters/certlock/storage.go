package certlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stilelock/stile"
)

// A Storage is a [certmagic.Storage] whose locks are in a store of stile. Make it with [New].
type Storage struct {
	certmagic.Storage
	client *stile.Client
	prefix string

	mu   sync.Mutex
	held map[string][]*stile.Lease // by certmagic's name of the lock, the oldest first; several only if leases were lost
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns a storage that keeps certificates in another one. The prefix precedes the names of its locks. The caller
// closes the client when certmagic has stopped.
func New(storage certmagic.Storage, client *stile.Client, prefix string) *Storage {
	return &Storage{Storage: storage, client: client, prefix: prefix, held: map[string][]*stile.Lease{}}
}

// Lock waits for a lock, until ctx ends.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lease, err := s.client.Mutex(s.prefix + name).Lock(ctx)
	if err != nil {
		return fmt.Errorf("certlock: %w", err)
	}
	s.hold(name, lease)
	return nil
}

// TryLock takes a lock without waiting, and reports whether it did. A lock that another has is no error.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.client.Mutex(s.prefix + name).TryLock(ctx)
	switch {
	case errors.Is(err, stile.ErrHeld):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("certlock: %w", err)
	}
	s.hold(name, lease)
	return true, nil
}

func (s *Storage) hold(name string, lease *stile.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = append(s.held[name], lease)
}

// Unlock releases a lock. The error is [stile.ErrLost] if the lease was lost before, so that another machine may have worked
// at the same time; [stile.ErrUnknown] if the store did not answer, so that the lock stays taken until the lease runs out;
// and [stile.ErrReleased] if this process does not have the lock. In each case this process no longer has the lock.
//
// If a lease was lost, and another goroutine of this process has taken the lock since, the first Unlock is for the lost
// lease: the lock stays taken until both have unlocked.
func (s *Storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	leases := s.held[name]
	switch len(leases) {
	case 0:
		s.mu.Unlock()
		return fmt.Errorf("certlock: unlock %q: it is not locked: %w", s.prefix+name, stile.ErrReleased)
	case 1:
		delete(s.held, name)
	default:
		s.held[name] = leases[1:]
	}
	s.mu.Unlock()
	if err := leases[0].Unlock(); err != nil {
		return fmt.Errorf("certlock: %w", err)
	}
	return nil
}

// RenewLockLease returns nil if the lock is still held. It does not ask the store: the client renews the lease while the
// process lives, whatever duration certmagic gives. Otherwise the error is [stile.ErrLost], and certmagic stops the work.
func (s *Storage) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	lease := s.Lease(name)
	if lease == nil {
		return fmt.Errorf("certlock: renew %q: it is not locked: %w", s.prefix+name, stile.ErrReleased)
	}
	if err := lease.Check(); err != nil {
		return fmt.Errorf("certlock: renew: %w", err)
	}
	return nil
}

// Lease returns the lease under which this process has a lock, by certmagic's name of it, or nil. A hook of certmagic that
// writes elsewhere sends the lease's token.
func (s *Storage) Lease(name string) *stile.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leases := s.held[name]; len(leases) > 0 {
		return leases[len(leases)-1]
	}
	return nil
}
