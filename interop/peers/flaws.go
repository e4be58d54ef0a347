//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// A flaw is a known bug of a library, played with the library and in the same way with stile.
type flaw struct {
	number int    // in docs/interop.md
	what   string // what is done
	plays  []play
}

// A play is one scenario with one library.
type play struct {
	who  string
	fate fate
	play func() (seen string, wrong bool, err error)
}

// A fate is what the version that this program was written with does.
type fate int

const (
	passes fate = iota
	fails
	mayFail // by chance
)

// A sight is what was seen of one play.
type sight struct {
	flaw
	play
	seen  string
	wrong bool
	err   error
}

// surprising reports whether a play went otherwise than this program says that it does.
func (s *sight) surprising() bool {
	return s.err != nil || s.fate != mayFail && s.wrong != (s.fate == fails)
}

// playAll plays flaws one after the other.
func playAll(flaws []flaw) (list []sight) {
	for _, f := range flaws {
		for _, p := range f.plays {
			s := sight{flaw: f, play: p}
			s.seen, s.wrong, s.err = p.play()
			list = append(list, s)
		}
	}
	return list
}

// lockName is the name of a lock of a play, which is another one in each run.
var lockName = regexp.MustCompile(`interop-[0-9a-f]{8}`)

// flawTable writes what was seen, in Markdown, and returns how many plays went otherwise than expected.
func flawTable(out io.Writer, list []sight) (surprises int) {
	fmt.Fprintln(out, "| bug | what is done | with | seen | |\n| --- | --- | --- | --- | --- |")
	for _, s := range list {
		verdict := "right"
		if s.wrong {
			verdict = "**wrong**"
		}
		if s.surprising() {
			surprises++
			verdict += ", and that is a surprise"
		}
		if s.err != nil {
			s.seen = s.err.Error()
		}
		s.seen = lockName.ReplaceAllString(s.seen, "NAME")
		fmt.Fprintf(out, "| %d | %s | %s | %s | %s |\n", s.number, s.flaw.what, s.who, s.seen, verdict)
	}
	return surprises
}

// An attempt is a lock that is being taken by a goroutine.
type attempt struct {
	locker
	done chan struct{} // closed when the answer is there
	err  error
}

// begins starts to take a lock. It goes on until it is held or fails, or the test is over.
func begins(ctx context.Context, l locker, name string) *attempt {
	a := &attempt{locker: l, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		_, a.err = l.lock(ctx, name)
	}()
	return a
}

var errNoAnswer = errors.New("no answer")

// answer waits for the outcome: nil if the lock is held, errNoAnswer if it is still waited for.
func (a *attempt) answer(within time.Duration) error {
	select {
	case <-a.done:
		return a.err
	default:
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-a.done:
		return a.err
	case <-limit.C:
		return errNoAnswer
	}
}

// tells puts an outcome into words.
func tells(err error) string {
	switch {
	case err == nil:
		return "holds"
	case errors.Is(err, errNoAnswer):
		return "waits"
	}
	return fmt.Sprintf("gets the error \"%v\"", err)
}

// twofold puts into words what a waiter was told before the holder released, and after.
func twofold(early, late error) string {
	if errors.Is(early, errNoAnswer) {
		return "the waiter " + tells(late) + " after the release"
	}
	return "the waiter " + tells(early) + " at once"
}

// An opener opens one client.
type opener func(ctx context.Context, addr string) (locker, error)

// openAll opens clients, and returns how to close them.
func openAll(ctx context.Context, n int, open opener, addr string) (list []locker, end func(), err error) {
	end = func() {
		for _, l := range list {
			l.close()
		}
	}
	for range n {
		l, err := open(ctx, addr)
		if err != nil {
			end()
			return nil, nil, err
		}
		list = append(list, l)
	}
	return list, end, nil
}

// until waits for a condition of the store.
func until(what string, holds func() (bool, error)) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok && err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("not yet after %v: %s (%w)", patience, what, err)
		}
	}
}

// pause lets time pass, for what must happen meanwhile in a store or a library that tells nobody.
func pause(d time.Duration) { <-time.After(d) }
