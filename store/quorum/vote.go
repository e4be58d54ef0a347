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

// refuses reports whether others are in the way of the claim on the node.
func (v *vote) refuses() bool { return v.came && v.err == nil && !v.place.Holds }

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

	denied int // nodes that said no to the request itself, and will again
}

// sum counts votes.
func sum(votes []vote) (c count) {
	for i := range votes {
		switch v := &votes[i]; {
		case !v.came:
			c.left++
		case v.gone():
			c.gone++
		case errors.Is(v.err, driver.ErrForeign):
			c.foreign++
		case v.err != nil:
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

// departures counts the nodes that let a claim go, and the nodes that did not have it.
func departures(votes []vote) (left, gone int) {
	for i := range votes {
		switch v := &votes[i]; {
		case v.gone():
			gone++
		case v.came && v.err == nil:
			left++
		}
	}
	return left, gone
}

// confirmations counts the nodes that carried out the request.
func confirmations(votes []vote) (n int) {
	for _, v := range votes {
		if v.came && v.err == nil {
			n++
		}
	}
	return n
}

// remains lists the nodes that have, or may have, a claim that must be taken out, and among them the nodes that granted it.
func remains(votes []vote) (all, granted []int) {
	for i := range votes {
		switch v := &votes[i]; {
		case v.grants():
			all, granted = append(all, i), append(granted, i)
		case !v.came, v.unknown():
			all = append(all, i)
		}
	}
	return all, granted
}

// strip hides the outcome in one node's error, since the whole call has another outcome.
func strip(err error) error { return errors.New(err.Error()) }
