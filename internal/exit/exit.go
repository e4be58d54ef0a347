//go:build unix

// Package exit has the exit statuses of a program, and maps errors to statuses and advice.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/phrase"
)

// The exit statuses. Scripts rely on them. In addition, stile run and stile elect end as CMD did: with its status, or with
// 128 plus the number of the signal that killed it.
const (
	Failed        = 1   // a demonstration had a wrong result
	BadUsage      = 64  // the request can never be fulfilled
	Store         = 69  // the store cannot be reached, does not answer or is full
	System        = 71  // this machine lacks something, whatever the store
	Output        = 74  // the output cannot be written
	Held          = 75  // not acquired in time, or held
	Lost          = 79  // the lease was lost
	NotExecutable = 126 // CMD cannot be executed
	NotFound      = 127 // CMD cannot be found
	Signal        = 128 // plus the number of a signal
)

// A Status is an error with an exit status. Without an inner error there is no message.
type Status struct {
	Code int
	err  error
}

func (s *Status) Error() string {
	if s.err == nil {
		return fmt.Sprintf("exit status %d", s.Code)
	}
	return s.err.Error()
}

func (s *Status) Unwrap() error { return s.err }

// With returns an error with an exit status. Without an inner error there is no message.
func With(code int, err error) error { return &Status{code, err} }

// Usage returns the error of a wrong command line, with status BadUsage. The text names the mistake and the allowed forms.
func Usage(format string, args ...any) error {
	return With(BadUsage, fmt.Errorf(format, args...))
}

// Of returns the exit status and the message for an error; an empty text means no message.
func Of(err error) (code int, text string) {
	if err == nil {
		return 0, ""
	}
	if i, ok := errors.AsType[*ending.Interrupted](err); ok {
		return Signal + int(i.Signal), ""
	}
	code, hint := Classify(err)
	silent := false
	if s, ok := errors.AsType[*Status](err); ok {
		code, silent = s.Code, s.err == nil
	}
	if exhausted(err) {
		code, hint = System, "; this machine has no more for this process: its limits, or the load, are the cause"
	}
	if silent {
		return code, ""
	}
	return code, err.Error() + hint
}

// Classify returns the exit status for an error, and advice.
func Classify(err error) (code int, hint string) {
	name := "NAME"
	if e, ok := errors.AsType[*stile.Error](err); ok && driver.CheckName(e.Name) == nil {
		name = phrase.Quoted(e.Name)
	}
	switch {
	case errors.Is(err, stile.ErrHeld):
		return Held, "; wait longer with --wait, or look at the queue: stile show " + name
	case errors.Is(err, stile.ErrLost):
		return Lost, "; others may hold the lock now: stile show " + name
	case errors.Is(err, stile.ErrCapacity):
		return BadUsage, "; say the same --of as the others do, or none: stile show " + name
	case errors.Is(err, stile.ErrInvalid), errors.Is(err, stile.ErrUnsupported), errors.Is(err, stile.ErrForeign):
		return BadUsage, ""
	case NoRoom(err):
		return Store, "; make room there, and try again"
	case strings.Contains(err.Error(), "since it cannot save its data"): // Redis with a full disk, or without its own folder
		return Store, "; the log of redis says why"
	case refusedName(err):
		return BadUsage, "; the store will say so again: this is for whoever looks after the store of --url, or of STILE_URL"
	case errors.Is(err, stile.ErrUnreachable), errors.Is(err, stile.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return Store, "; the store is the one of --url, or of STILE_URL"
	}
	return Store, ""
}

// exhausted reports whether this machine has no file, process or memory left for stile. A driver's error about its store is
// then not about the store: a job that may run twice if the store is down must not run because this machine is full.
func exhausted(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return strings.Contains(err.Error(), syscall.EMFILE.Error()) // for a driver that keeps only the text
}

// NoRoom reports whether the store refused because its disk or its memory is full, which ends when somebody makes room. Each
// driver has its own error for that, so NoRoom looks at the words.
func NoRoom(err error) bool {
	text := err.Error()
	for _, words := range []string{
		"has no room: the disk is full", "the server has no room", "has no memory left for a new claim", // Redis
		"has no memory left for a claim", // memcached
		"etcd has no space left",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// refusedName reports whether the store refused a request about a name, and will again.
func refusedName(err error) bool {
	e, ok := errors.AsType[*stile.Error](err)
	return ok && e.Op != "open" && driver.OutcomeOf(err) == driver.OutcomeRefused &&
		!errors.Is(err, stile.ErrUnreachable) && !errors.Is(err, stile.ErrClosed)
}

// Passes reports whether the store may answer the same question later. A store that could not be opened is not tried again.
func Passes(err error) bool {
	if _, ended := errors.AsType[*Status](err); ended || errors.Is(err, stile.ErrInvalid) {
		return false
	}
	return driver.OutcomeOf(err) != driver.OutcomeRefused || errors.Is(err, stile.ErrUnreachable)
}
