package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

// The error for a file to which another process keeps writing is unreachable. It is not the end of a context that the caller
// never made, and the end of one caller's context does not fail another call.
func TestBusyFileIsUnreachable(t *testing.T) {
	t.Parallel()
	path := lockFile(t)
	d := open(t, path)
	c, err := stile.New(d, &stile.Options{Patience: 3 * time.Second}) // undelayed calls take less, even on a slow disk
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Mutex("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Mutex("x").Lock(short)
		ended <- err
	}()
	_, err = c.Mutex("x").Lock(t.Context())
	if !errors.Is(err, stile.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("lock: %v; want ErrUnreachable alone", err)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("lock whose context ended: %v; want its cause", err)
	}
	if err := lease.Unlock(); !errors.Is(err, stile.ErrUnknown) || !errors.Is(err, stile.ErrUnreachable) {
		t.Errorf("unlock: %v; want ErrUnknown", err)
	}

	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := c.Mutex("x").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("when the file is free again: %v", err)
	}
	if err := errors.Join(conn.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}
