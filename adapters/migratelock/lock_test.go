package migratelock

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	dbtesting "github.com/golang-migrate/migrate/v4/database/testing"
	_ "github.com/golang-migrate/migrate/v4/source/file"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// machines returns a function that makes clients of one store.
func machines(t *testing.T) func() *stile.Client {
	store := memory.NewStore()
	return func() *stile.Client {
		c, err := stile.New(store.Driver(), &stile.Options{LockOptions: stile.LockOptions{TTL: 9 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func newStub(t *testing.T) *stub.Stub {
	t.Helper()
	d, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*stub.Stub)
}

// These are golang-migrate's own tests of drivers, also for a driver that Open returned.
func TestMigrate(t *testing.T) {
	client := machines(t)()
	d := New(newStub(t), client, "shop", 0)
	dbtesting.Test(t, d, []byte("CREATE TABLE orders"))
	opened, err := d.Open("stub://shop")
	if err != nil {
		t.Fatal(err)
	}
	dbtesting.Test(t, opened, []byte("CREATE TABLE orders"))
}

// While one driver has the lock, another waits, or gets an error that names the holder. When the lock is free, the other
// migrates.
func TestLock(t *testing.T) {
	machine := machines(t)
	here, inner := New(newStub(t), machine(), "shop", 0), newStub(t)
	there, err := migrate.NewWithDatabaseInstance("file://testdata", "stub", New(inner, machine(), "shop", 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := here.Lock(); err != nil {
		t.Fatal(err)
	}
	if lease := here.Lease(); lease == nil || lease.Name() != "shop" || lease.Check() != nil {
		t.Errorf("the lease is %v", lease)
	}
	err = there.Up()
	if _, ok := errors.AsType[*stile.HeldError](err); !ok || !errors.Is(err, database.ErrLocked) || len(inner.MigrationSequence) != 0 {
		t.Errorf("while it is locked: %v, want %v with its holder", err, database.ErrLocked)
	}
	waits, waited := New(newStub(t), machine(), "shop", time.Minute), make(chan error, 1)
	go func() { waited <- waits.Lock() }()
	if err := here.Unlock(); err != nil || here.Lease() != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := errors.Join(<-waited, waits.Unlock()); err != nil {
		t.Errorf("one that waits: %v", err)
	}
	if err := there.Up(); err != nil || inner.CurrentVersion != 1 || inner.IsDirty {
		t.Errorf("when it is free: %v, version %d", err, inner.CurrentVersion)
	}
}

// A driver whose lease is lost writes nothing more, and leaves the version unchanged.
func TestLost(t *testing.T) {
	client, inner := machines(t)(), newStub(t)
	run := func() {
		if _, err := client.Break(t.Context(), "shop", stile.BreakOptions{Head: true}); err != nil {
			t.Error(err)
		}
	}
	var d *Driver
	d = New(worker{inner, func() { run(); <-d.Lease().Context().Done() }}, client, "shop", 0)
	m, err := migrate.NewWithDatabaseInstance("file://testdata", "stub", d)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Up(); !errors.Is(err, stile.ErrLost) || inner.CurrentVersion != 1 || !inner.IsDirty {
		t.Errorf("Up: %v, version %d, dirty %v; want %v, version 1, dirty", err, inner.CurrentVersion, inner.IsDirty, stile.ErrLost)
	}
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	run()
	<-d.Lease().Context().Done()
	refused := map[string]error{"run": d.Run(strings.NewReader("")), "set version": d.SetVersion(7, false), "drop": d.Drop()}
	for op, err := range refused {
		if !errors.Is(err, stile.ErrLost) || !strings.HasPrefix(err.Error(), "migratelock: "+op+": ") {
			t.Errorf("%s: %v, want %v", op, err, stile.ErrLost)
		}
	}
	if inner.CurrentVersion != 1 {
		t.Errorf("version %d was written without the lease", inner.CurrentVersion)
	}
}

// Close releases the lock, and ends a waiting Lock.
func TestClose(t *testing.T) {
	machine := machines(t)
	here, there := New(newStub(t), machine(), "shop", time.Minute), New(newStub(t), machine(), "shop", time.Minute)
	if err := here.Lock(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- there.Lock() }()
	for asked := false; !asked; runtime.Gosched() {
		there.mu.Lock()
		asked = there.state == asks
		there.mu.Unlock()
	}
	if err := errors.Join(there.Close(), there.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-waited; !errors.Is(err, stile.ErrClosed) {
		t.Errorf("Lock of a driver that was closed: %v, want %v", err, stile.ErrClosed)
	}
	if err := here.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := New(newStub(t), machine(), "shop", time.Minute).Lock(); err != nil { // the claim of the other may still leave
		t.Errorf("after it was closed: %v", err)
	}
}

// A driver whose client is closed while it has the lock writes nothing more.
func TestClosedWhileLocked(t *testing.T) {
	client := machines(t)()
	d := New(newStub(t), client, "shop", 0)
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	client.Close()
	run, version, unlock := d.Run(strings.NewReader("")), d.SetVersion(1, false), d.Unlock()
	for op, err := range map[string]error{"run": run, "set version": version, "unlock": unlock} {
		if !errors.Is(err, stile.ErrLost) || !strings.HasPrefix(err.Error(), "migratelock: ") || !strings.Contains(err.Error(), stile.ReasonShutdown.String()) {
			t.Errorf("%s: %v, want %v, as the client was closed", op, err, stile.ErrLost)
		}
	}
	if err := d.Lock(); !errors.Is(err, stile.ErrClosed) {
		t.Errorf("lock again: %v, want %v", err, stile.ErrClosed)
	}
}

// An error names the adapter and the lock.
func TestErrors(t *testing.T) {
	machine := machines(t)
	over, client, free := New(newStub(t), machine(), "shop", 0), machine(), New(newStub(t), machine(), "shop", 0)
	client.Close()
	if err := over.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		got  error
		want error
		text string
	}{
		{"driver that is closed", over.Lock(), stile.ErrClosed, `migratelock: lock "shop": the driver: `},
		{"unlock of a driver that is closed", over.Unlock(), stile.ErrClosed, `migratelock: unlock "shop": the driver: `},
		{"client that is closed", New(newStub(t), client, "shop", 0).Lock(), stile.ErrClosed, `migratelock: stile: try "shop": `},
		{"no name", New(newStub(t), machine(), "", 0).Lock(), stile.ErrInvalid, `migratelock: `},
		{"not locked", free.Unlock(), database.ErrNotLocked, `migratelock: unlock "shop": `},
	} {
		if !errors.Is(tt.got, tt.want) || !strings.HasPrefix(tt.got.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, tt.got, tt.want, tt.text)
		}
	}
}
