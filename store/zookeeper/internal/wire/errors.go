package wire

import (
	"errors"
	"fmt"
	"time"
)

// A Code is a refusal by the server.
type Code int32

// The codes to which the caller or the connection reacts.
const (
	systemError       Code = -1
	dataInconsistent  Code = -3
	ConnectionLoss    Code = -4
	TooLong           Code = -5
	Unimplemented     Code = -6
	operationTimeout  Code = -7
	BadArguments      Code = -8
	NoNode            Code = -101
	NoAuth            Code = -102
	BadVersion        Code = -103
	ParentIsEphemeral Code = -108
	NodeExists        Code = -110
	NotEmpty          Code = -111
	sessionExpired    Code = -112
	InvalidACL        Code = -114
	authFailed        Code = -115
	sessionMoved      Code = -118
	notReadOnly       Code = -119
	LocalSession      Code = -120
	requestTimeout    Code = -122
	needsSASL         Code = -124
	QuotaExceeded     Code = -125
	Throttled         Code = -127
)

// A reaction is what the connection does after an answer with a code.
type reaction int

const (
	goesOn    reaction = iota // the caller gets the answer
	moves                     // the session moves to another connection, and the call's outcome is unknown
	expires                   // the session is over
	isRefused                 // the session is over: the server rejects the authentication
)

// A fault is a code's meaning, and the connection's reaction.
type fault struct {
	says string
	then reaction
}

var faults = map[Code]fault{
	systemError:       {"system error", moves},
	dataInconsistent:  {"the server's data are not consistent", moves},
	ConnectionLoss:    {"the server lost the leader", moves},
	TooLong:           {"the request is too long", goesOn},
	Unimplemented:     {"unknown request", goesOn},
	operationTimeout:  {"the request took too long", moves},
	BadArguments:      {"bad arguments", goesOn},
	NoNode:            {"no such node", goesOn},
	NoAuth:            {"no permission", goesOn},
	BadVersion:        {"the node has changed", goesOn},
	ParentIsEphemeral: {"the node above is ephemeral", goesOn},
	NodeExists:        {"the node exists", goesOn},
	NotEmpty:          {"the node has children", goesOn},
	sessionExpired:    {"the session has expired", expires},
	InvalidACL:        {"not authenticated", goesOn},
	authFailed:        {"authentication failed", isRefused},
	sessionMoved:      {"the session has moved to another server", moves},
	notReadOnly:       {"the server is read-only", moves},
	LocalSession:      {"the session is local to one server", goesOn},
	requestTimeout:    {"the request took too long", moves},
	needsSASL:         {"authentication required", isRefused},
	QuotaExceeded:     {"quota exceeded", goesOn},
	Throttled:         {"too many requests", goesOn},
}

func (c Code) Error() string {
	if f, ok := faults[c]; ok {
		return f.says
	}
	return fmt.Sprintf("error %d", int32(c))
}

var (
	// ErrExpired says that the ensemble has ended the session.
	ErrExpired = errors.New("the session has expired")
	// ErrClosed says that the session was closed by its user.
	ErrClosed = errors.New("the session is closed")
	// ErrRefused says that the server rejects the authentication.
	ErrRefused = errors.New("the server does not accept the authentication")
	// ErrReadOnly says that a server has lost contact with the others and only serves reads.
	ErrReadOnly = errors.New("the server is read-only: it has lost the others of its ensemble")
)

// An Unsent says that requests were not sent, since there was no connection.
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
