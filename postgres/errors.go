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
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return d.refused(refusal, connecting)
	}
	switch {
	case errors.Is(err, errEmptied):
		return driver.Refused(err)
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

// refused explains an error that the server answered. A statement that got one was undone, unless the server ended the
// connection: then it may have been past the commit.
func (d *Driver) refused(r *pgconn.PgError, connecting bool) error {
	text := fmt.Sprintf("%s, SQLSTATE %s", d.hide(r.Message), r.Code)
	later := func(what string) error {
		return driver.Refused(driver.Unreachable(fmt.Errorf("%s (%s)", what, text)))
	}
	never := func(what string) error { return driver.Refused(fmt.Errorf("%s (%s)", what, text)) }
	fatal := r.SeverityUnlocalized == "FATAL" || r.SeverityUnlocalized == "PANIC"
	switch r.Code {
	case "28P01", "28000":
		return never(fmt.Sprintf("postgres does not let user %q in with this password", d.user))
	case "3D000":
		return never("postgres has no such database")
	case "53300":
		return later("postgres has no connection left: raise max_connections, or use fewer")
	case "57P03":
		return later("postgres is not ready yet")
	case "25006":
		return never("postgres is read-only here, such as a standby: use the address of the primary")
	case "42501":
		return never(fmt.Sprintf("postgres does not let user %q do this; the package documentation of postgres lists the rights", d.user))
	case "42P01", "3F000", "42883":
		return never("the tables of locks are gone")
	case "STI01":
		return never("the default isolation of transactions is another one here: locks need read committed, for the user or in the URL of the pool")
	case "STI02":
		return driver.Refused(errEmptied)
	case "53100":
		return never("postgres has no room: the disk is full")
	case "57014":
		return later("postgres ended the request: it took longer than statement_timeout, or somebody cancelled it")
	case "55P03":
		return later("another transaction has held the row of this name for longer than lock_timeout")
	case "40P01", "40001":
		return later("postgres undid the request, since it was in the way of others")
	}
	switch {
	case fatal && connecting:
		return later("postgres takes no connection")
	case fatal:
		return driver.Unreachable(fmt.Errorf("postgres ended the connection before the answer came (%s)", text))
	case strings.HasPrefix(r.Code, "53"):
		return later("postgres is short of something")
	}
	return never("postgres refused the request")
}
