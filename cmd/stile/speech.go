package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
)

// A level is how much is said on stderr beside the error that ends the command.
type level int

const (
	quiet   level = iota - 1 // nothing, and nothing of a lock that is held: the status says so
	normal                   // warnings, and on a terminal what is waited for
	verbose                  // also what happens to the lock
)

// speech is the level of this process, from its flags.
var speech level

// speechFlags are those of all commands.
type speechFlags struct{ quiet, verbose bool }

func (s *speechFlags) flags(f *pflag.FlagSet) {
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print only errors on stderr, and nothing if the lock is held")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "tell on stderr what stile waits for, and what happens to the lock")
}

// set makes the flags those of the process. The error says which do not go together.
func (s *speechFlags) set() error {
	switch {
	case s.quiet && s.verbose:
		return errors.New("--quiet says less and --verbose says more: give one of them")
	case s.quiet:
		speech = quiet
	case s.verbose:
		speech = verbose
	}
	return nil
}

// say prints one line that begins with the program's name.
func say(w io.Writer, format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "stile: ")
	fmt.Fprintln(w, "stile: "+oneLine(text))
}

// stderr is what stile says itself, with a line below it on a terminal while something is waited for.
var stderr = tty.NewLine(os.Stderr)

// warn says something on stderr that does not end the command.
func warn(format string, args ...any) {
	if speech >= normal {
		say(stderr, format, args...)
	}
}

// detail says what only somebody wants to know who looks for the cause of something, and when it was.
func detail(format string, args ...any) {
	if speech >= verbose {
		say(stderr, time.Now().Format("15:04:05.000")+" "+format, args...)
	}
}

// aloud has an observer's events said too, but for the end of a lease that is left to another process.
func aloud(observer stile.Observer, left bool) stile.Observer {
	if speech < verbose {
		return observer
	}
	return func(e stile.Event) {
		if text := eventText(e); text != "" && !(left && e.Kind == stile.EventReleased) {
			detail("%s", text)
		}
		if observer != nil {
			observer(e)
		}
	}
}

// eventText is an event in words; nothing for one that is told otherwise.
func eventText(e stile.Event) string {
	switch e.Kind {
	case stile.EventAcquired:
		return fmt.Sprintf("%q is held, by ticket %d, after %v", e.Name, e.Token, rounded(e.Waited))
	case stile.EventRenewed:
		return fmt.Sprintf("%q was renewed, with %v left", e.Name, rounded(e.Margin))
	case stile.EventJeopardy:
		return fmt.Sprintf("%q could not be renewed, and is tried again: %v", e.Name, e.Err)
	case stile.EventLost:
		return fmt.Sprintf("%q was lost after %v: %s", e.Name, rounded(e.Held), whyLost(e.Err, 0))
	case stile.EventReleased:
		if e.Err != nil {
			return fmt.Sprintf("%q was released after %v, but the store did not confirm it: %v", e.Name, rounded(e.Held), e.Err)
		}
		return fmt.Sprintf("%q was released after %v", e.Name, rounded(e.Held))
	case stile.EventAsked:
		return fmt.Sprintf("somebody asks for %q", e.Name)
	case stile.EventDisplaced:
		return fmt.Sprintf("the claim on %q is gone from the queue, lost or removed by hand, and enters again at the tail once its holder knows", e.Name)
	case stile.EventWaiting, stile.EventLeaked:
	}
	return ""
}

func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// whyLost says why a lock was lost, and what that can come from. A process that stood still does not blame the store.
func whyLost(err error, stood time.Duration) string {
	lost, ok := errors.AsType[*stile.LostError](err)
	if !ok {
		return err.Error()
	}
	why := lost.Reason.String()
	if stood > 0 && (lost.Reason == stile.ReasonExpired || lost.Reason == stile.ReasonRemoved) {
		return fmt.Sprintf("%s: stile itself did not run for %v: it was stopped, or the machine was suspended or overloaded", why, rounded(stood))
	}
	switch lost.Reason {
	case stile.ReasonExpired:
		if lost.Err == nil {
			why += ": the store did not answer"
		}
	case stile.ReasonBroken:
		if lost.By != (stile.Holder{}) {
			why += ": " + page.Printable(lost.By.String())
		}
		return why
	case stile.ReasonSessionOver:
		why += ": the store had not heard from this process for too long, or the session was ended by hand"
	case stile.ReasonRemoved, stile.ReasonSuspended, stile.ReasonHeldLong, stile.ReasonShutdown, stile.ReasonUnfit: // they say it
	}
	if lost.Err != nil {
		why += fmt.Sprintf(": %v", lost.Err)
	}
	return why
}

// A wait that is shorter than vigilDelay is not worth reading of, and the queue is not worth asking for.
const vigilDelay = 700 * time.Millisecond
