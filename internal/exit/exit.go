//go:build unix

// Package exit is how a program ends: the statuses, which error has which, and what can be done about it.
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

// The exit statuses. Scripts rely on them. Beside these, stile run and stile elect end as CMD did: with its status, or
// with 128 and the number of the signal that killed it.
const (
	Failed        = 1   // a demonstration did not come out as it must
	BadUsage      = 64  // what was asked for can never be done
	Store         = 69  // the store cannot be reached, does not answer or is full
	System        = 71  // this machine lacks what stile needs, whatever the store is
	Output        = 74  // what there is to say cannot be written
	Held          = 75  // not acquired in time, or held
	Lost          = 79  // the lease was lost
	NotExecutable = 126 // CMD cannot be executed
	NotFound      = 127 // CMD cannot be found
	Signal        = 128 // and the number of a signal
)

// A Status is an error that says how the process ends. With no error inside there is nothing to say about it.
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

// With is an error with which the process ends with a status. With no error inside there is nothing to say about it.
func With(code int, err error) error { return &Status{code, err} }

// Usage says what is wrong with the command line and what is allowed.
func Usage(format string, args ...any) error {
	return With(BadUsage, fmt.Errorf(format, args...))
}

// Of returns the status with which a program ends for an error, and what there is to say about it; nothing if the text is empty.
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

// Classify returns the status for an error, and what can be done about it.
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
	case strings.Contains(err.Error(), "since it cannot save its data"): // Redis, whose disk may be full, or its folder not its own
		return Store, "; the log of redis says why"
	case refusedName(err):
		return BadUsage, "; the store will say so again: this is for whoever looks after the store of --url, or of STILE_URL"
	case errors.Is(err, stile.ErrUnreachable), errors.Is(err, stile.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return Store, "; the store is the one of --url, or of STILE_URL"
	}
	return Store, ""
}

// exhausted reports whether this machine had no file, process or memory left for stile. What a driver says of its store then
// is not true of the store: a job that may run twice if the store is down must not run since this machine is full.
func exhausted(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return strings.Contains(err.Error(), syscall.EMFILE.Error()) // of a driver that keeps the text only
}

// NoRoom reports whether the store refused since its disk or its memory is full, which ends when somebody makes room. Each
// driver has an error of its own for it, so its words tell.
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

// refusedName reports whether the store refused what was asked about a name, and will again.
func refusedName(err error) bool {
	e, ok := errors.AsType[*stile.Error](err)
	return ok && e.Op != "open" && driver.OutcomeOf(err) == driver.OutcomeRefused &&
		!errors.Is(err, stile.ErrUnreachable) && !errors.Is(err, stile.ErrClosed)
}

// Passes reports whether the store may answer the same question later. A store that could not even be opened is not
// tried again.
func Passes(err error) bool {
	if _, ended := errors.AsType[*Status](err); ended || errors.Is(err, stile.ErrInvalid) {
		return false
	}
	return driver.OutcomeOf(err) != driver.OutcomeRefused || errors.Is(err, stile.ErrUnreachable)
}
