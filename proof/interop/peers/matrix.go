//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A store is a server and the kinds of clients that meet on it.
type store struct {
	name   string
	names  string // the beginning of its locks' names
	leases bool   // a lock lives by renewals of its holder, not by a session
	kinds  []kind
	pairs  []pair
	plays  []play
}

func (s *store) kind(name string) kind {
	for _, k := range s.kinds {
		if k.name == name {
			return k
		}
	}
	panic("no such kind: " + name)
}

// How many scenarios run at a time, beside the scenarios that wait for long sessions.
const (
	atOnce  = 5
	leasing = 15 // scenarios that mostly wait for leases
)

// run plays all scenarios of all pairs and returns the results in the order of the pairs.
func run(stores []*store) []result {
	var results []*result
	var work sync.WaitGroup
	short, waiting := make(chan struct{}, atOnce), make(chan struct{}, leasing)
	play := func(slots chan struct{}, err *error, what string, scenario func() error) {
		work.Go(func() {
			if slots != nil {
				slots <- struct{}{}
				defer func() { <-slots }()
			}
			if failed := scenario(); failed != nil {
				*err = fmt.Errorf("%s: %w", what, failed)
			}
		})
	}
	var failures []*[4]error
	for _, s := range stores {
		for _, p := range s.pairs {
			r, errs := &result{pair: p, store: s.name, names: s.names}, &[4]error{}
			results, failures = append(results, r), append(failures, errs)
			a, b := s.kind(p.holder), s.kind(p.contender)
			slots := short
			if max(a.ends, b.ends) > session {
				slots = nil
			}
			middle := a
			if a.after != "" {
				middle = s.kind(a.after)
			}
			play(slots, &errs[0], "two clients", func() error { return meet(a, b, r) })
			if !p.shares {
				play(slots, &errs[1], "three clients", func() error { return queue(a, middle, b, r) })
			}
			if s.leases && !p.shares {
				play(waiting, &errs[2], "a late release", func() error { return late(a, b, r) })
			}
			if s.leases && !p.shares && !a.fixed {
				play(waiting, &errs[3], "three leases", func() error { return outlast(a, b, r) })
			}
		}
	}
	work.Wait()
	var list []result
	for i, r := range results {
		r.err = errors.Join(failures[i][:]...)
		list = append(list, *r)
	}
	return list
}

// table writes the results as a Markdown table, and returns how many are wrong.
func table(out io.Writer, results []result) (wrong int) {
	var rows folded
	for _, r := range results {
		verdict := "waits"
		switch {
		case r.err != nil:
			verdict = "**WRONG**"
			wrong++
		case r.shared:
			verdict = "holds too"
		}
		rows.add(r.store, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", r.holder, r.contender, verdict,
			shown(r.handover, time.Millisecond), shown(r.killed, 100*time.Millisecond), shown(r.behind, 10*time.Millisecond)))
	}
	rows.write(out, "| holder | contender | | handed over after | after kill -9 of the holder | behind a killed waiter |")
	for _, r := range results {
		if r.err != nil {
			fmt.Fprintf(out, "\n%s, held by %s, wanted by %s: %v\n", r.store, r.holder, r.contender, r.err)
		}
	}
	return wrong
}

func shown(d, unit time.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.Round(unit).String()
}
