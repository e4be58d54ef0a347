package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/stilelock/stile/driver"
)

// An Error is an error of package driver, or the service's own. It keeps all facts that a caller may test: which of the
// package's errors it is, the outcome of the request, and whether the store could be reached.
type Error struct {
	Code        string `json:"code"`
	Outcome     string `json:"outcome"` // of the request: unknown, unsent, refused; see driver.Outcome
	Unreachable bool   `json:"unreachable,omitempty"`
	Message     string `json:"message"` // for people
	Request     string `json:"request,omitempty"`

	Have   int64  `json:"have,omitempty"`   // of CodeCapacity
	Want   int64  `json:"want,omitempty"`   // of CodeCapacity
	Record []byte `json:"record,omitempty"` // of CodeBroken and CodeRecord
	Scheme string `json:"scheme,omitempty"` // of CodeMissing

	Principal string `json:"principal,omitempty"` // of CodeBroken
}

// The codes.
const (
	CodeGone        = "gone"        // driver.ErrGone
	CodeSession     = "session"     // driver.ErrSession
	CodeBroken      = "broken"      // driver.BrokenError
	CodeUnsupported = "unsupported" // driver.ErrUnsupported
	CodeForeign     = "foreign"     // driver.ErrForeign
	CodeCapacity    = "capacity"    // driver.CapacityError
	CodeRecord      = "record"      // driver.RecordError
	CodeMissing     = "missing"     // driver.MissingError
	CodeFailed      = "failed"      // any other error of the store
	CodeStore       = "store"       // ErrOtherStore
	CodeInvalid     = "invalid"     // the request violates the contract, and no driver got it
	CodeForbidden   = "forbidden"   // the service does not serve this caller, or the caller lacks the right

	CodeUnauthenticated = "unauthenticated" // the service needs credentials, and the request has no valid ones
	CodeTooMany         = "too_many"        // ErrTooMany
)

// statuses are the HTTP statuses, for proxies and people; clients of this package read only the code.
var statuses = map[string]int{
	CodeGone: http.StatusGone, CodeSession: http.StatusGone, CodeBroken: http.StatusGone,
	CodeUnsupported: http.StatusNotImplemented, CodeForeign: http.StatusConflict, CodeCapacity: http.StatusConflict,
	CodeStore: http.StatusPreconditionFailed, CodeRecord: http.StatusConflict, CodeMissing: http.StatusNotImplemented, CodeFailed: http.StatusInternalServerError,
	CodeInvalid: http.StatusBadRequest, CodeForbidden: http.StatusForbidden,
	CodeUnauthenticated: http.StatusUnauthorized, CodeTooMany: http.StatusTooManyRequests,
}

// Status returns the error's HTTP status.
func (e *Error) Status() int {
	if e.Unreachable && e.Code != CodeTooMany {
		return http.StatusServiceUnavailable
	}
	return statuses[e.Code]
}

// ErrOtherStore is the error of a request that is meant for another store than that of the service.
var ErrOtherStore = errors.New("the lock service serves another store than the one that the request is meant for")

// ErrTooMany is the error of a request that exceeds a bound of the service. The service has not passed it on, and serves it
// later: the header Retry-After has the seconds.
var ErrTooMany = errors.New("the lock service has too much to do")

// maxMessage is the largest message in bytes.
const maxMessage = 1000

// NewError returns the error of an answer, and nil for nil.
//
// [driver.ErrClosed] means here that the service has closed its store, not that the client is closed. So it becomes the
// error of an unreachable store.
func NewError(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{
		Code: CodeFailed, Outcome: driver.OutcomeOf(err).String(), Unreachable: driver.IsUnreachable(err),
		Message: plain(err.Error()),
	}
	if errors.Is(err, driver.ErrClosed) {
		e.Unreachable, e.Message = true, "the lock service has closed its store"
	}
	e.know(err)
	return e
}

// plain returns a message on one line of at most maxMessage bytes.
func plain(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// know sets the code and the fields for an error of package driver.
func (e *Error) know(err error) {
	if broken, ok := errors.AsType[*driver.BrokenError](err); ok {
		e.Code, e.Record, e.Principal = CodeBroken, []byte(broken.Record), broken.Principal
	} else if capacity, ok := errors.AsType[*driver.CapacityError](err); ok {
		e.Code, e.Have, e.Want = CodeCapacity, capacity.Have, capacity.Want
	} else if record, ok := errors.AsType[*driver.RecordError](err); ok {
		e.Code, e.Record = CodeRecord, []byte(record.Have)
	} else if missing, ok := errors.AsType[*driver.MissingError](err); ok {
		e.Code, e.Scheme = CodeMissing, missing.Scheme
	} else {
		for _, s := range sentinels {
			if errors.Is(err, s.err) {
				e.Code = s.code
				return
			}
		}
	}
}

// sentinels are the errors without fields. ErrSession is also ErrGone, so it comes first.
var sentinels = []struct {
	code string
	err  error
}{
	{CodeSession, driver.ErrSession},
	{CodeGone, driver.ErrGone},
	{CodeForeign, driver.ErrForeign},
	{CodeUnsupported, driver.ErrUnsupported},
	{CodeStore, ErrOtherStore},
	{CodeTooMany, ErrTooMany},
}

// outcomes maps the words for outcomes to the outcomes and marks of package driver.
var outcomes = map[string]struct {
	outcome driver.Outcome
	mark    func(error) error
}{
	driver.OutcomeUnknown.String(): {driver.OutcomeUnknown, driver.Unknown},
	driver.OutcomeUnsent.String():  {driver.OutcomeUnsent, driver.Unsent},
	driver.OutcomeRefused.String(): {driver.OutcomeRefused, driver.Refused},
}

// ReadError returns the error in the body of an answer, and false if the body is not an Error.
func ReadError(body []byte) (*Error, bool) {
	e := &Error{}
	if json.Unmarshal(body, e) != nil || !e.whole() {
		return nil, false
	}
	return e, true
}

// whole reports whether the error has its required fields.
func (e *Error) whole() bool {
	_, known := outcomes[e.Outcome]
	return known && statuses[e.Code] != 0
}

// errNotWhole stands for an error in an answer that lacks required fields.
var errNotWhole = errors.New("the lock service sent an error that says nothing")

// Err returns the error as a driver returns it, and nil for nil.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	if !e.whole() {
		return driver.Unknown(errNotWhole)
	}
	err := error(&served{plain(e.Message), e.known()})
	if e.Unreachable {
		err = driver.Unreachable(err)
	}
	if o := outcomes[e.Outcome]; driver.OutcomeOf(err) != o.outcome {
		err = o.mark(err)
	}
	return err
}

// known returns package driver's error for the code, or nil.
func (e *Error) known() error {
	switch e.Code {
	case CodeBroken:
		return &driver.BrokenError{Record: string(e.Record), Principal: e.Principal}
	case CodeCapacity:
		return &driver.CapacityError{Have: e.Have, Want: e.Want}
	case CodeRecord:
		return &driver.RecordError{Have: string(e.Record)}
	case CodeMissing:
		return &driver.MissingError{Scheme: e.Scheme}
	}
	for _, s := range sentinels {
		if s.code == e.Code {
			return s.err
		}
	}
	return nil
}

// A served is an error with the service's message. It unwraps to the error for its code.
type served struct {
	message string
	known   error
}

func (s *served) Error() string { return s.message }

func (s *served) Unwrap() error { return s.known }
