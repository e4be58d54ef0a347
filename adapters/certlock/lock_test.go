package certlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// machines returns a function that makes storages over one store, each with a client of its own.
func machines(t *testing.T) func() *Storage {
	store := memory.NewStore()
	return func() *Storage {
		c, err := stile.New(store.Driver(), &stile.Options{LockOptions: stile.LockOptions{TTL: 9 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return New(&certmagic.FileStorage{Path: t.TempDir()}, c, "certs/")
	}
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A lock excludes others until it is released. certmagic's own test of its files is the same, except for the second machine.
func TestLock(t *testing.T) {
	machine := machines(t)
	here, there := machine(), machine()
	if err := here.Lock(t.Context(), "issue_cert_*.example.com"); err != nil {
		t.Fatal(err)
	}
	lease := here.Lease("issue_cert_*.example.com")
	if lease == nil || lease.Name() != "certs/issue_cert_*.example.com" || lease.Check() != nil {
		t.Errorf("the lease is %v", lease)
	}
	if err := here.RenewLockLease(t.Context(), "issue_cert_*.example.com", time.Hour); err != nil {
		t.Errorf("RenewLockLease: %v", err)
	}
	for name, s := range map[string]*Storage{"here": here, "there": there} {
		if err := s.Lock(ended(t), "issue_cert_*.example.com"); !errors.Is(err, context.Canceled) {
			t.Errorf("while it is locked, %s: %v, want %v", name, err, context.Canceled)
		}
		if ok, err := s.TryLock(t.Context(), "issue_cert_*.example.com"); ok || err != nil {
			t.Errorf("while it is locked, %s: %v, %v, want false", name, ok, err)
		}
	}
	if ok, err := there.TryLock(t.Context(), "ari_1"); !ok || err != nil {
		t.Errorf("another lock: %v, %v, want true", ok, err)
	}
	waited := make(chan error, 1)
	go func() { waited <- there.Lock(t.Context(), "issue_cert_*.example.com") }()
	if err := here.Unlock(ended(t), "issue_cert_*.example.com"); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the lock of the other machine: %v", err)
	}
	if err := there.Unlock(t.Context(), "issue_cert_*.example.com"); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// The Unlock for a lost lease does not release the lock that another goroutine has taken since.
func TestLost(t *testing.T) {
	s := machines(t)()
	if err := s.Lock(t.Context(), "storage_clean"); err != nil {
		t.Fatal(err)
	}
	first := s.Lease("storage_clean")
	if _, err := s.client.Break(t.Context(), "certs/storage_clean", stile.BreakOptions{Head: true}); err != nil {
		t.Fatal(err)
	}
	<-first.Context().Done()
	if err := s.RenewLockLease(t.Context(), "storage_clean", time.Hour); !errors.Is(err, stile.ErrLost) {
		t.Errorf("renew a lease that is lost: %v, want %v", err, stile.ErrLost)
	}
	if err := s.Lock(t.Context(), "storage_clean"); err != nil {
		t.Fatal(err)
	}
	second := s.Lease("storage_clean")
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
	if err := s.Unlock(t.Context(), "storage_clean"); !errors.Is(err, stile.ErrLost) || second.Check() != nil {
		t.Errorf("unlock a lease that is lost: %v, want %v; the other's lease: %v", err, stile.ErrLost, second.Check())
	}
	if err := s.Unlock(t.Context(), "storage_clean"); err != nil || s.Lease("storage_clean") != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// certmagic cleans a storage under the lock, and releases it.
func TestCertmagic(t *testing.T) {
	machine := machines(t)
	here, there := machine(), machine()
	if err := there.Lock(t.Context(), "storage_clean"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("it waited"))
	defer cancel()
	err := certmagic.CleanStorage(ctx, here, certmagic.CleanStorageOptions{})
	if err == nil || !strings.Contains(err.Error(), "it waited") {
		t.Errorf("while another machine cleans: %v, want that it waited", err)
	}
	if err := there.Unlock(t.Context(), "storage_clean"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := certmagic.CleanStorage(t.Context(), here, certmagic.CleanStorageOptions{}); err != nil {
			t.Errorf("CleanStorage: %v", err)
		}
	}
	if _, err := here.Load(t.Context(), "last_clean.json"); err != nil {
		t.Errorf("what was stored: %v", err)
	}
}

// A lock whose client is closed meanwhile is lost, and each call says so.
func TestClosedWhileLocked(t *testing.T) {
	s := machines(t)()
	if err := s.Lock(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	s.client.Close()
	for op, err := range map[string]error{
		"renew": s.RenewLockLease(t.Context(), "a", time.Hour), "unlock": s.Unlock(t.Context(), "a"),
	} {
		if !errors.Is(err, stile.ErrLost) || !strings.HasPrefix(err.Error(), "certlock: ") || !strings.Contains(err.Error(), stile.ReasonShutdown.String()) {
			t.Errorf("%s: %v, want %v, as the client was closed", op, err, stile.ErrLost)
		}
	}
}

// An error names the adapter and the lock.
func TestErrors(t *testing.T) {
	machine := machines(t)
	over, s := machine(), machine()
	over.client.Close()
	try := func(s *Storage, name string) error {
		_, err := s.TryLock(t.Context(), name)
		return err
	}
	for _, tt := range []struct {
		name string
		got  error
		want error
		text string
	}{
		{"client that is closed", over.Lock(t.Context(), "a"), stile.ErrClosed, `certlock: stile: lock "certs/a": `},
		{"try, client that is closed", try(over, "a"), stile.ErrClosed, `certlock: stile: try "certs/a": `},
		{"name that is too long", try(s, strings.Repeat("a", 300)), stile.ErrInvalid, `certlock: stile: try "certs/aaa`},
		{"not locked", s.Unlock(t.Context(), "a"), stile.ErrReleased, `certlock: unlock "certs/a": it is not locked`},
		{"renew, not locked", s.RenewLockLease(t.Context(), "a", 1), stile.ErrReleased, `certlock: renew "certs/a": it is not locked`},
	} {
		if !errors.Is(tt.got, tt.want) || !strings.HasPrefix(tt.got.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, tt.got, tt.want, tt.text)
		}
	}
}
