package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
)

var (
	errEmptied = errors.New("the tables of locks were emptied: drop them, and they are made anew")
	errShort   = errors.New("postgres answered for fewer claims than it was asked for")
)

// A busyError says that no connection of the pool was free.
type busyError struct {
	size   int32
	waited time.Duration
	cause  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("all %d connections of the pool are in use (waited %v): raise pool_max_conns, or hold them for less long",
		e.size, e.waited.Round(time.Millisecond))
}

func (e *busyError) Unwrap() error { return e.cause }

// A connectError says that there is no connection.
type connectError struct {
	address string
	tried   time.Duration
	cause   error
}

func (e *connectError) Error() string {
	text := "no answer in time"
	if e.cause != nil && !errors.Is(e.cause, context.DeadlineExceeded) && !errors.Is(e.cause, context.Canceled) {
		text = e.cause.Error()
	}
	if e.tried > 0 {
		return fmt.Sprintf("cannot connect to postgres at %s (tried for %v): %s", e.address, e.tried.Round(time.Millisecond), text)
	}
	return fmt.Sprintf("cannot connect to postgres at %s: %s", e.address, text)
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// explain turns an error of the client into one of the driver: who refused, what it means, whether the request may have
// been applied.
func (d *Driver) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, driver.ErrClosed) {
		return err
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return d.answered(answer, connecting)
	}
	switch {
	case errors.Is(err, errEmptied):
		return driver.Refused(err)
	case errors.Is(err, errAlone):
		return driver.Unreachable(err)
	case connecting:
		return driver.Unsent(driver.Unreachable(&connectError{address: d.address(), cause: d.cause(err)}))
	case d.ctx.Err() != nil:
		return errors.New("the client was closed while postgres had the request")
	case ctx.Err() != nil:
		return driver.Ended(ctx, !pgconn.SafeToRetry(err))
	case pgconn.SafeToRetry(err):
		return driver.Unsent(driver.Unreachable(fmt.Errorf("the connection to postgres is gone: %w", d.cause(err))))
	}
	return driver.Unreachable(fmt.Errorf("the connection to postgres broke before the answer came: %w", d.cause(err)))
}

// cause returns the innermost cause of an error of the network, without its client's words around it, and without the
// password.
func (d *Driver) cause(err error) error {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		err = lookup
	} else if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	} else if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = c.Unwrap()
	}
	return errors.New(d.hide(err.Error()))
}

func (d *Driver) hide(text string) string {
	if d.secret != "" {
		text = strings.ReplaceAll(text, d.secret, "…")
	}
	return strings.Join(strings.Fields(text), " ")
}
