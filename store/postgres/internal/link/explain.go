package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

// A busyError says that no connection of the pool was free.
type busyError struct {
	size   int32
	waited time.Duration
	cause  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf("all %d connections of the pool are in use (waited %v): "+
		"raise pool_max_conns, or hold them for less long", e.size, e.waited.Round(time.Millisecond))
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
	if tried := e.tried.Round(time.Millisecond); e.tried > 0 {
		return fmt.Sprintf("cannot connect to postgres at %s (tried for %v): %s", e.address, tried, text)
	}
	return fmt.Sprintf("cannot connect to postgres at %s: %s", e.address, text)
}

var errNoTurn = errors.New("no answer in time from the pooler in front of postgres, as if it had no connection left for this one: " +
	"its pool must be as large as pool_max_conns, and one more, for each client (PgBouncer's default_pool_size)")

// address returns the server's address, for messages.
func (l *Link) address() string {
	if strings.HasPrefix(l.config.Host, "/") {
		return l.config.Host
	}
	return net.JoinHostPort(l.config.Host, strconv.Itoa(int(l.config.Port)))
}

// Explain turns an error of the client into an error of the driver: which server refused, the meaning, and the outcome.
func (l *Link) Explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, driver.ErrClosed) {
		return err
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return l.answered(answer, connecting)
	}
	switch {
	case errors.Is(err, errAlone), errors.Is(err, errMixedUp):
		return driver.Unreachable(err)
	case connecting && strings.Contains(err.Error(), "server refused TLS connection") && l.onlyTLS():
		return driver.Refused(fmt.Errorf("postgres at %s does not speak TLS: use sslmode=disable, or prefer", l.address()))
	case connecting:
		return driver.Unsent(driver.Unreachable(&connectError{address: l.address(), cause: l.Cause(err)}))
	case l.Context().Err() != nil:
		return errors.New("the client was closed while postgres had the request")
	case ctx.Err() != nil:
		return driver.Ended(ctx, !pgconn.SafeToRetry(err))
	case pgconn.SafeToRetry(err):
		return driver.Unsent(driver.Unreachable(fmt.Errorf("the connection to postgres is gone: %w", l.Cause(err))))
	case l.pooled.Load() && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return driver.Unreachable(errNoTurn)
	}
	return driver.Unreachable(fmt.Errorf("the connection to postgres broke before the answer came: %w", l.Cause(err)))
}

// onlyTLS reports whether all connections use TLS.
func (l *Link) onlyTLS() bool {
	plain := func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil }
	return l.config.TLSConfig != nil && !slices.ContainsFunc(l.config.Fallbacks, plain)
}

// Cause returns the innermost cause of a network error, without its client's words and without the password.
func (l *Link) Cause(err error) error {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		err = lookup
	} else if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	} else if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = c.Unwrap()
	}
	text := strings.ReplaceAll(err.Error(), ": %!w(<nil>)", "") // the client's words for an answer that is not PostgreSQL's
	return errors.New(l.Hide(text))
}

// Hide makes a text presentable: one line, without the password.
func (l *Link) Hide(text string) string {
	return strings.Join(strings.Fields(secure.Hide(text, l.config.Password)), " ")
}
