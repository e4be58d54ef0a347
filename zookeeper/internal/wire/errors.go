package wire

import (
	"errors"
	"fmt"
	"time"
)

// A Code is a refusal by the server.
type Code int32

// The codes that mean something to the caller.
const (
	ConnectionLoss Code = -4
	Unimplemented  Code = -6
	BadArguments   Code = -8
	NoNode         Code = -101
	NoAuth         Code = -102
	NodeExists     Code = -110
	NotEmpty       Code = -111
	BadVersion     Code = -103
	sessionExpired Code = -112
	InvalidACL     Code = -114
	authFailed     Code = -115
	sessionMoved   Code = -118
	notReadOnly    Code = -119
	needsSASL      Code = -124
	QuotaExceeded  Code = -125
	Throttled      Code = -127
)

var codes = map[Code]string{
	ConnectionLoss: "the server lost the leader", Unimplemented: "unknown request", BadArguments: "bad arguments",
	NoNode: "no such node", NoAuth: "no permission", NodeExists: "the node exists", NotEmpty: "the node has children", BadVersion: "the node has changed",
	sessionExpired: "the session has expired", InvalidACL: "not authenticated", authFailed: "authentication failed",
	sessionMoved: "the session has moved to another server", QuotaExceeded: "quota exceeded", Throttled: "too many requests",
	notReadOnly: "the server is read-only", needsSASL: "authentication required",
}

func (c Code) Error() string {
	if text := codes[c]; text != "" {
		return text
	}
	return fmt.Sprintf("error %d", int32(c))
}

var (
	// ErrExpired says that the ensemble has ended the session.
	ErrExpired = errors.New("the session has expired")
	// ErrClosed says that the session was closed by its user.
	ErrClosed = errors.New("the session is closed")
	// ErrRefused says that the server does not accept who we are.
	ErrRefused = errors.New("the server does not accept the authentication")
	// ErrReadOnly says that a server has lost the others and serves only reads.
	ErrReadOnly = errors.New("the server is read-only: it has lost the others of its ensemble")
)

// An Unsent says that requests never left, since there was no connection to send them on.
type Unsent struct{ Err error }

func (e *Unsent) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *Unsent) Unwrap() error { return e.Err }

// A Broken says that the connection broke before the answer came.
type Broken struct{ Err error }

func (e *Broken) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *Broken) Unwrap() error { return e.Err }

// A DialError says that no connection could be made to an address.
type DialError struct {
	Addr  string
	Tried time.Duration
	Err   error
}

func (e *DialError) Error() string {
	return fmt.Sprintf("cannot connect to zookeeper at %s (tried for %v): %v", e.Addr, e.Tried.Round(time.Millisecond), e.Err)
}

// Unwrap returns why.
func (e *DialError) Unwrap() error { return e.Err }
