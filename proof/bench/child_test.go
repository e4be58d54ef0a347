//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"testing"
	"testing/synctest"
	"time"
)

// A child that is silent for too long is ended, and one that is slow is not.
func TestSilentChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		l := newLines(in, io.Discard)
		l.end = func() { out.Close() }
		go func() {
			for range 3 {
				time.Sleep(patience * 9 / 10)
				fmt.Fprintln(out, `"slow"`)
			}
		}()
		for range 3 {
			if err := l.hearWord("slow"); err != nil {
				t.Errorf("a slow child: %v", err)
			}
		}
		if err := l.hearWord("more"); !errors.Is(err, errSilent) {
			t.Errorf("the error of a silent child is %v, want %v", err, errSilent)
		}
	})
}

// A measure of a library that was silent is taken once more; stile's silence is an error.
func TestSilenceIsTriedAgain(t *testing.T) {
	for name, want := range map[string]int{"redsync": 2, ours: 1} {
		asked := 0
		m := &measure{key: "alone", rows: []*row{{name: name, run: func() (sample, error) {
			asked++
			return nil, fmt.Errorf("a turn: %w", errSilent)
		}}}}
		b := &bench{arena: redisArena, measures: []*measure{m}, only: regexp.MustCompile(""), rounds: 1, log: t.Logf}
		if err := b.run(); !errors.Is(err, errSilent) || asked != want {
			t.Errorf("%s was asked %d times and the error is %v; want %d and %v", name, asked, err, want, errSilent)
		}
	}
}
