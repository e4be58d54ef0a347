package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

// number returns the server's number of an error; 0 if it is not the server's error.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// unreadable are the library's errors for an answer that it cannot read, or has not read to its end. Usually they end the
// connection. None of them is a refusal by the server.
var unreadable = []error{mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrMalformPkt, mysql.ErrBusyBuffer}

// broken reports whether a connection was lost, could not be made, or is useless.
func broken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	if slices.ContainsFunc(unreadable, func(other error) bool { return errors.Is(err, other) }) {
		return true
	}
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || err != nil && strings.HasSuffix(err.Error(), unwritten)
}

// unwritten is the text of the library's error for a connection that was lost before a request was written. The library
// replaces it by [sqldriver.ErrBadConn], but not while it connects.
const unwritten = "bad connection"

// again reports whether a transaction that failed with this error before its commit may be repeated at once.
func again(err error) bool {
	switch number(err) {
	case deadlock, lockWait, recordChanged:
		return true
	case 0:
		return broken(err)
	}
	return false
}

// judged returns the meaning of an error of a statement that may have written, and drops the connection if it must not be
// used again.
func (s *store) judged(ctx context.Context, conn *sql.Conn, err error) error {
	if err == nil {
		return nil
	}
	f := faultOf(err)
	if f.outcome == refused {
		err = s.definite(ctx, err)
	} else {
		err = s.explain(ctx, err)
	}
	if f.drop {
		drop(conn)
	}
	return err
}

// definite returns the meaning of an error after which nothing was written.
func (s *store) definite(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return driver.ErrClosed
	}
	switch e := s.explain(ctx, err); {
	case ctx.Err() != nil:
		return driver.Unsent(e)
	case driver.OutcomeOf(e) != driver.OutcomeUnknown:
		return e
	case number(err) == 0 && broken(err):
		return driver.Unsent(e) // the connection ended before the request that writes
	default:
		return driver.Refused(e)
	}
}

// errClosing differs from [driver.ErrClosed], which says that nothing was done.
var errClosing = errors.New("the client was closed before the server answered")

// explain returns the meaning of an error, and marks it if the store could not be asked.
func (s *store) explain(ctx context.Context, err error) error {
	switch {
	case s.ctx.Err() != nil:
		return errClosing
	case ctx.Err() != nil:
		if errors.Is(context.Cause(ctx), errSlow) {
			return driver.Unknown(errSlow) // the driver's own bound of the call ended, not its caller's context
		}
		return driver.Ended(ctx, true)
	case driver.IsUnreachable(err) || driver.NotApplied(err):
		return err
	}
	cause := s.cause(err)
	switch {
	case errors.Is(err, mysql.ErrNoTLS):
		return driver.Refused(fmt.Errorf("mysql at %s does not speak TLS: use tls=false, or preferred", s.address()))
	case number(err) != 0:
		return answered(err, cause)
	case broken(err):
		return driver.Unreachable(fmt.Errorf("the connection to %s failed: %w", s.address(), cause))
	}
	return cause
}

func (s *store) address() string {
	if s.addr == "" {
		return "the server"
	}
	return s.addr
}

// cause returns an error whose text is one line without the password.
func (s *store) cause(err error) error {
	text := err.Error()
	clean := strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	clean = secure.Hide(clean, s.secret)
	if clean == text {
		return err
	}
	return errors.New(clean)
}

// drop closes a connection for good, which rolls back its open transaction. The error that Raw returns is the one that made
// it close the connection.
func drop(conn *sql.Conn) { _ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) }
