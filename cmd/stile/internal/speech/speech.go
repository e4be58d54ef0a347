// Package speech writes stile's messages to stderr: as many as the flags allow, each in one line without secrets, and errors
// with the page that explains them.
//
// Of the other packages of the command it may import tty.
package speech

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// A Level is the amount of messages on stderr, beside the error that ends the command.
type Level int

const (
	Quiet   Level = iota - 1 // none, and no error if somebody else holds the lock: the exit status shows that
	Normal                   // warnings, and on a terminal the present wait
	Verbose                  // also the lock's events
)

// Current is the level of this process, from its flags.
var Current Level

// Flags are the flags of all commands.
type Flags struct{ quiet, verbose bool }

// Register adds them to a command.
func (s *Flags) Register(f *pflag.FlagSet) {
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print only errors on stderr, and nothing if the lock is held")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "tell on stderr what stile waits for, and what happens to the lock")
}

// Set makes the flags the settings of this process. The error names flags that do not go together.
func (s *Flags) Set() error {
	switch {
	case s.quiet && s.verbose:
		return errors.New("--quiet says less and --verbose says more: give one of them")
	case s.quiet:
		Current = Quiet
	case s.verbose:
		Current = Verbose
	}
	return nil
}

// Say prints one line that begins with the program's name.
func Say(w io.Writer, format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "stile: ")
	fmt.Fprintln(w, "stile: "+phrase.OneLine(text))
}

// Stderr takes stile's own messages. On a terminal it has a line below them while stile waits.
var Stderr = tty.NewLine(os.Stderr)

// Warn prints a message on stderr that does not end the command.
func Warn(format string, args ...any) {
	if Current >= Normal {
		Say(Stderr, format, args...)
	}
}

// Passing warns that the store is out of reach for the moment. It returns any other error.
func Passing(err error) error {
	if !exit.Passes(err) {
		return err
	}
	Warn("warning: %v; trying again until the store answers", err)
	return nil
}

// Detail prints a message with its time, for a person who looks for a cause.
func Detail(format string, args ...any) {
	if Current >= Verbose {
		Say(Stderr, time.Now().Format("15:04:05.000")+" "+format, args...)
	}
}

// Aloud returns an observer that also prints the events, except the end of a lease that is left to another process.
func Aloud(observer stile.Observer, left bool) stile.Observer {
	if Current < Verbose {
		return observer
	}
	return func(e stile.Event) {
		if text := eventText(e); text != "" && !(left && e.Kind == stile.EventReleased) {
			Detail("%s", text)
		}
		if observer != nil {
			observer(e)
		}
	}
}

// eventText returns an event in words; "" for an event that is reported otherwise.
func eventText(e stile.Event) string {
	switch e.Kind {
	case stile.EventAcquired:
		return fmt.Sprintf("%q is held, by ticket %d, after %v", e.Name, e.Token, phrase.Rounded(e.Waited))
	case stile.EventRenewed:
		return fmt.Sprintf("%q was renewed, with %v left", e.Name, phrase.Rounded(e.Margin))
	case stile.EventJeopardy:
		return fmt.Sprintf("%q could not be renewed, and is tried again: %v", e.Name, e.Err)
	case stile.EventLost:
		return fmt.Sprintf("%q was lost after %v: %s", e.Name, phrase.Rounded(e.Held), WhyLost(e.Err, 0))
	case stile.EventReleased:
		if e.Err != nil {
			return fmt.Sprintf("%q was released after %v, but the store did not confirm it: %v", e.Name, phrase.Rounded(e.Held),
				e.Err)
		}
		return fmt.Sprintf("%q was released after %v", e.Name, phrase.Rounded(e.Held))
	case stile.EventAsked:
		return fmt.Sprintf("somebody asks for %q", e.Name)
	case stile.EventDisplaced:
		return fmt.Sprintf("the claim on %q is gone from the queue, lost or removed by hand, and enters again at the tail once "+
			"its holder knows", e.Name)
	case stile.EventWaiting, stile.EventLeaked:
	}
	return ""
}

// WhyLost explains the loss of a lock, with its possible causes. If the process stood still, the store is not to blame.
func WhyLost(err error, stood time.Duration) string {
	lost, ok := errors.AsType[*stile.LostError](err)
	if !ok {
		return err.Error()
	}
	why := lost.Reason.String()
	if stood > 0 && (lost.Reason == stile.ReasonExpired || lost.Reason == stile.ReasonRemoved) {
		return fmt.Sprintf("%s: stile itself did not run for %v: it was stopped, or the machine was suspended or overloaded", why,
			phrase.Rounded(stood))
	}
	switch lost.Reason {
	case stile.ReasonExpired:
		if lost.Err == nil {
			why += ": the store did not answer"
		}
	case stile.ReasonBroken:
		if lost.By != (stile.Holder{}) {
			why += ": " + phrase.Printable(lost.By.String())
		}
		return why
	case stile.ReasonSessionOver:
		why += ": the store had not heard from this process for too long, or the session was ended by hand"
	case stile.ReasonRemoved, stile.ReasonSuspended, stile.ReasonHeldLong, stile.ReasonShutdown, stile.ReasonUnfit:
		// These texts explain it themselves.
	}
	if lost.Err != nil {
		why += fmt.Sprintf(": %v", lost.Err)
	}
	return why
}

// Delay is how long a wait lasts before it is shown, and the queue is read.
const Delay = 700 * time.Millisecond
