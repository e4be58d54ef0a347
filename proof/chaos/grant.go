//go:build unix

package main

import (
	"time"

	"github.com/stilelock/stile/internal/history"
)

// A fate is the end of a hold, as far as its holder learned it.
//
//	held ── leave ──> leaving ── over ──> freed     given back, and the store has said so
//	 │                   └────── over ──> expired   not renewed before its deadline
//	 └─────────────────── over ─────────> gone      lost for another reason
//
// A worker that was killed leaves its holds held or leaving. A hold stays leaving if it is unknown what the store did.
type fate int

const (
	held fate = iota
	leaving
	freed
	expired
	gone
)

// A grant is a hold, with the calls around it.
type grant struct {
	history.Hold
	call  time.Duration // when the lock was asked for
	until time.Duration // when the lease ends by its holder's clock without another renewal, by the holder's last report
	fate  fate
	left  time.Duration // when its release began
	done  time.Duration // when the release had ended; only of a freed one
}

// still records that the lease was trusted after a time.
func (g *grant) still(at, until time.Duration) {
	g.End, g.until = max(g.End, at), max(g.until, until)
}

// leave records that the release began at a time.
func (g *grant) leave(at time.Duration) {
	if g.fate == held {
		g.fate, g.left = leaving, at
	}
}

// over records the end of the lease.
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

// earliest returns the first moment at which the store may have ended the hold. A lease that ran out must have been good
// until its end, even if its holder was stopped and did not look. Of a killed process nothing is known after its last
// report, since some stores free a dead process's locks at once.
func (g *grant) earliest() time.Duration {
	switch g.fate {
	case expired:
		return max(g.End, g.until)
	case leaving, freed:
		return max(g.End, min(g.left, g.until))
	}
	return g.End
}
