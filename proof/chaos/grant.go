//go:build unix

package main

import (
	"time"

	"github.com/stilelock/stile/internal/history"
)

// A fate is what became of a hold, as far as its holder learnt.
//
//	held ── leave ──> leaving ── over ──> freed     given back, and the store has said so
//	 │                   └────── over ──> expired   not renewed before its deadline
//	 └─────────────────── over ─────────> gone      lost for another reason
//
// A worker that was killed leaves its holds held or leaving. Leaving stays leaving if it is not known what the store did.
type fate int

const (
	held fate = iota
	leaving
	freed
	expired
	gone
)

// A grant is a hold, with what surrounds it.
type grant struct {
	history.Hold
	call  time.Duration // when the lock was asked for
	until time.Duration // when the lease ends by its holder's clock if it is not renewed, as far as was said
	fate  fate
	left  time.Duration // when it was about to be given back
	done  time.Duration // when that had been done; of what is freed
}

// still takes down that the lease was trusted after a time.
func (g *grant) still(at, until time.Duration) {
	g.End, g.until = max(g.End, at), max(g.until, until)
}

// leave takes down that the hold was not given back before a time.
func (g *grant) leave(at time.Duration) {
	if g.fate == held {
		g.fate, g.left = leaving, at
	}
}

// over takes down that the lease is over.
func (g *grant) over(end fate, at time.Duration) {
	switch {
	case g.fate == leaving:
		g.fate, g.done = end, at
	case g.fate == held && end == expired:
		g.fate = expired
	case g.fate == held:
		g.fate = gone
	}
}

// earliest is the first moment at which the store may have ended the hold. A lease that only ran out must have been good
// until then, even if its holder stood still and did not look. Of what a killed process held nothing is known after its last
// word, since some stores free at once what a dead process held.
func (g *grant) earliest() time.Duration {
	switch g.fate {
	case expired:
		return max(g.End, g.until)
	case leaving, freed:
		return max(g.End, min(g.left, g.until))
	}
	return g.End
}
