//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"
)

// A play is something that stile and another library do on one lock, beside taking and releasing it.
type play struct {
	what string                 // what happens
	who  string                 // who does it
	play func() (string, error) // returns the result; the error is a violation
}

// A sight is the result of one play.
type sight struct {
	play
	store string
	seen  string
	err   error
}

// playAll runs the plays of all stores at the same time, and the plays of one store one after the other.
func playAll(stores []*store) (list []sight) {
	sights := make([][]sight, len(stores))
	var work sync.WaitGroup
	for i, s := range stores {
		work.Go(func() {
			for _, p := range s.plays {
				seen, err := p.play()
				sights[i] = append(sights[i], sight{p, s.name, seen, err})
			}
		})
	}
	work.Wait()
	for _, some := range sights {
		list = append(list, some...)
	}
	return list
}

// lockName matches the name of a play's lock, which differs in each run.
var lockName = regexp.MustCompile(`interop-[0-9a-f]{8}`)

// playTable writes the results as a Markdown table, and returns the rows of failed plays.
func playTable(out io.Writer, list []sight) (wrong []string) {
	var rows folded
	for _, s := range list {
		seen := s.seen
		if s.err != nil {
			seen = "**WRONG**: " + s.err.Error()
		}
		row := fmt.Sprintf("| %s | %s | %s |", s.what, s.who, lockName.ReplaceAllString(seen, "NAME"))
		if s.err != nil {
			wrong = append(wrong, row)
		}
		rows.add(s.store, row)
	}
	rows.write(out, "| what is done | with | seen |")
	return wrong
}

// until waits for a condition in the store.
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
			return errors.Join(fmt.Errorf("not yet after %v: %s", patience, what), err)
		}
	}
}
