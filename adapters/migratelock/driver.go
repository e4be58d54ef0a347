package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/stilelock/stile"
)

// A Driver is a [database.Driver] that locks in a store, and leaves everything else to the driver of a database. Make it
// with [New].
//
//	free ──► asks ──► locked ──► free
//	  ▲        │
//	  └────────┘ the lock could not be had
//
//	each state ──► closed
type Driver struct {
	database database.Driver
	client   *stile.Client
	name     string
	wait     time.Duration
	open     context.Context // ends with Close
	end      context.CancelCauseFunc

	mu    sync.Mutex
	state state
	lease *stile.Lease // in state locked
}

var _ database.Driver = (*Driver)(nil)

type state int

const (
	free state = iota
	asks
	locked
	closed
)

// New returns a driver that migrates by another one. The name is the lock's name, and the same for all programs that migrate
// the database. The caller closes the client after the driver.
//
// Lock gives up after wait, and at once if wait is 0. It must be shorter than migrate's LockTimeout, which is 15 s unless
// the program sets it: after that time migrate ignores the result, and the driver does not learn of this.
func New(d database.Driver, client *stile.Client, name string, wait time.Duration) *Driver {
	open, end := context.WithCancelCause(context.Background())
	return &Driver{database: d, client: client, name: name, wait: wait, open: open, end: end}
}

// Open opens another database by the same kind of driver, under the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	opened, err := d.database.Open(url)
	if err != nil {
		return nil, err
	}
	return New(opened, d.client, d.name, d.wait), nil
}

// Lock takes the lock. The error is [database.ErrLocked] if another has it for the whole wait, or this driver itself.
func (d *Driver) Lock() error {
	d.mu.Lock()
	was := d.state
	if was == free {
		d.state = asks
	}
	d.mu.Unlock()
	switch was {
	case closed:
		return d.closed("lock")
	case asks, locked:
		return fmt.Errorf("migratelock: lock %q: this driver has it or asks for it: %w", d.name, database.ErrLocked)
	}
	lease, err := d.client.Mutex(d.name).LockWithin(d.open, d.wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == closed:
		if err == nil {
			_ = lease.Unlock() // nobody waits for it any more; if the store does not answer, it runs out
		}
		return d.closed("lock")
	case errors.Is(err, stile.ErrHeld):
		d.state = free
		return fmt.Errorf("migratelock: %w: %w", err, database.ErrLocked)
	case err != nil:
		d.state = free
		return fmt.Errorf("migratelock: %w", err)
	}
	d.state, d.lease = locked, lease
	return nil
}

// Unlock releases the lock. The error is [database.ErrNotLocked] if this driver has not taken it, and [stile.ErrLost] if the
// lease was lost before, so that another may have migrated at the same time. A release without an answer of the store is no
// error: the migrations ran, and the lease runs out.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.state {
	case closed:
		return d.closed("unlock")
	case free, asks:
		return fmt.Errorf("migratelock: unlock %q: %w", d.name, database.ErrNotLocked)
	}
	return d.release(free)
}

// release leaves state locked.
func (d *Driver) release(next state) error {
	err := d.lease.Unlock()
	d.state, d.lease = next, nil
	if errors.Is(err, stile.ErrLost) {
		return fmt.Errorf("migratelock: %w", err)
	}
	return nil
}

// Close closes the database's driver, and releases the lock if it is held.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lost error
	switch d.state {
	case closed:
		return nil
	case locked:
		lost = d.release(closed)
	}
	d.state = closed
	d.end(stile.ErrClosed)
	return errors.Join(d.database.Close(), lost)
}

func (d *Driver) closed(op string) error {
	return fmt.Errorf("migratelock: %s %q: the driver: %w", op, d.name, stile.ErrClosed)
}

// Lease returns the lease under which this driver migrates, or nil.
func (d *Driver) Lease() *stile.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// holds returns an error if the lease is lost, so that nothing may be written. migrate writes only while it has the lock;
// others, such as tests of drivers, may write without it.
func (d *Driver) holds(op string) error {
	if lease := d.Lease(); lease != nil && lease.Check() != nil {
		return fmt.Errorf("migratelock: %s: %w", op, lease.Check())
	}
	return nil
}

// Run applies a migration, unless the lease is lost.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.holds("run"); err != nil {
		return err
	}
	return d.database.Run(migration)
}

// SetVersion saves the version and whether it is dirty, unless the lease is lost. So a migration in which the lease was lost
// leaves the version dirty, since another may have migrated at the same time.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if err := d.holds("set version"); err != nil {
		return err
	}
	return d.database.SetVersion(version, dirty)
}

// Version returns the version of the database, and whether it is dirty.
func (d *Driver) Version() (version int, dirty bool, err error) { return d.database.Version() }

// Drop deletes everything in the database, unless the lease is lost.
func (d *Driver) Drop() error {
	if err := d.holds("drop"); err != nil {
		return err
	}
	return d.database.Drop()
}
