package quorum

import (
	"errors"

	"github.com/stilelock/stile/driver"
)

// A vote is one node's answer.
type vote struct {
	came  bool // it has answered, or failed to
	place driver.Place
	err   error
}

// grants reports whether the claim holds on the node.
func (v *vote) grants() bool { return v.came && v.err == nil && v.place.Holds }

// unknown reports whether the request may have been applied although the answer does not say so.
func (v *vote) unknown() bool { return v.came && v.err != nil && !driver.NotApplied(v.err) }

// denied reports whether the node said no to the request, and will to the next one like it.
func (v *vote) denied() bool {
	return v.came && v.err != nil && !v.gone() && forGood(v.err)
}

func (v *vote) gone() bool { return v.came && errors.Is(v.err, driver.ErrGone) }

// forGood reports whether an error is a no that does not pass by itself.
func forGood(err error) bool {
	return driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err)
}

// asked reports whether a node was asked, as far as its vote shows.
func asked(v vote) bool { return driver.OutcomeOf(v.err) != driver.OutcomeUnsent }

// A count is the sum of a round's votes.
type count struct {
	granted, refused, gone, foreign, left int

	failed int // that could not answer
	denied int // of these, those that said no to the request itself, and will again
}

func (d *Driver) count(votes []vote) (c count) {
	for i := range votes {
		switch v := &votes[i]; {
		case !v.came:
			c.left++
		case v.gone():
			c.gone++
		case errors.Is(v.err, driver.ErrForeign):
			c.foreign++
		case v.err != nil:
			c.failed++
			if v.denied() {
				c.denied++
			}
		case v.place.Holds:
			c.granted++
		default:
			c.refused++
		}
	}
	return c
}
