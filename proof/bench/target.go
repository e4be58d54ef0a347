//go:build unix

package main

import (
	"math"
	"slices"
	"strings"
)

// A target is what one figure of stile's should be, as a bound on its ratio to something else.
type target struct {
	text    string
	measure string
	row     string // stile's
	column  string
	unit    string
	against []ref   // rows, of which the best counts, or nothing
	fixed   float64 // or this, where there are none
	most    bool    // the ratio must be at most the bound; otherwise at least. Says also which of the others is best
	bound   float64
	strict  bool // with most: below the bound

	bare  string   // the row that is the bare limit; "" means that none is known
	peers []string // rows that must not be faster, for the bare limit to count; nil means all of the measure that are libraries of others
}

// nearly is how close to the bare limit a figure is that counts in place of a target that cannot be had.
const nearly = 0.15

// A ref names a row of a measure, and its column if that is another than the target's.
type ref struct{ measure, row, column string }

// rivals are rows of a measure.
func rivals(measure string, rows ...string) []ref {
	var list []ref
	for _, r := range rows {
		list = append(list, ref{measure: measure, row: r})
	}
	return list
}

// A verdict is how a target came out.
type verdict struct {
	ours, theirs float64 // medians
	rival        string  // whose it is; the best by its median
	ratios       []float64
	met          bool

	limit   float64   // the bare one, a median; not a number if none is known
	toLimit []float64 // ratios to it
	near    bool      // to it
	faster  string    // a peer that is
}

// word says how the target came out.
func (v *verdict) word() string {
	switch {
	case v.met:
		return isMet
	case v.near && v.faster == "":
		return isNear
	case v.near:
		return isMissed + ": " + v.faster + " is faster"
	}
	return isMissed
}

// noLibraries are rows that are no locks of anybody's.
var noLibraries = []string{
	pings, pacedPings, bareSetNX, bareScripts, bareList, barePublish, bareExpire, bareTurns, bareRing, bareRing + threeServers, bare, pgBare, pgNotice, mysqlBare, bareKill, sqliteBare, sqlitePass, etcdBare, etcdKeeps, zooKeeperBare, zooKeeperLine, consulBare,
	linkedTrue, linked,
}

// What a target has come to, as the pages say it.
const (
	isMet    = "met"
	isNear   = "within 15 % of the bare limit"
	isMissed = "**missed**"
)

// judge compares what was measured with a target; nil if it was not measured.
func (b *bench) judge(t *target) *verdict {
	mine := b.values(ref{t.measure, t.row, t.column})
	if len(mine) == 0 {
		return nil
	}
	v := &verdict{ours: median(mine), theirs: math.NaN(), limit: math.NaN()}
	best := make([]float64, len(mine)) // in each round
	for i := range best {
		best[i] = t.fixed
	}
	for n, r := range t.against {
		r.column = t.column
		other := b.values(r)
		if len(other) != len(mine) {
			return nil
		}
		if m := median(other); n == 0 || t.better(m, v.theirs) {
			v.theirs, v.rival = m, r.row
		}
		for i := range best {
			if n == 0 || t.better(other[i], best[i]) {
				best[i] = other[i]
			}
		}
	}
	if len(t.against) == 0 {
		v.theirs = t.fixed
	}
	v.ratios = b.ratios(mine, best)
	v.met = t.met(median(v.ratios))
	b.limits(t, v, mine)
	return v
}

// limits compares what was measured with the bare limit and with the peers.
func (b *bench) limits(t *target, v *verdict, mine []float64) {
	if limit := b.values(ref{t.measure, t.bare, t.column}); t.bare != "" && len(limit) == len(mine) {
		v.limit, v.toLimit = median(limit), b.ratios(mine, limit)
		v.near = t.near(median(v.toLimit))
	}
	for _, peer := range b.peersOf(t) {
		other := b.values(ref{t.measure, peer, t.column})
		if len(other) == len(mine) && t.better(1, median(b.ratios(mine, other))) {
			v.faster = peer
			break
		}
	}
}

// ratios divides what was measured in each round by something else of that round.
func (b *bench) ratios(mine, other []float64) []float64 {
	list := make([]float64, len(mine))
	for i := range mine {
		by := other[i]
		if by == 0 && b.window > 0 {
			by = 1 / b.window.Seconds() // what never happened counts as once in the window
		}
		list[i] = mine[i] / by
	}
	return list
}

// peersOf returns the rows that must not be faster for the bare limit to count.
func (b *bench) peersOf(t *target) (peers []string) {
	if t.peers != nil {
		return t.peers
	}
	for _, m := range b.measures {
		if m.key != t.measure {
			continue
		}
		for _, r := range m.rows {
			if !strings.HasPrefix(r.name, ours) && r.name != t.bare && !slices.Contains(noLibraries, r.name) {
				peers = append(peers, r.name)
			}
		}
	}
	return peers
}

// near reports whether a ratio to the bare limit is as good as within the bound.
func (t *target) near(ratio float64) bool {
	if t.most {
		return ratio <= 1+nearly
	}
	return ratio >= 1-nearly
}

// met reports whether a ratio is within the bound.
func (t *target) met(ratio float64) bool {
	switch {
	case !t.most:
		return ratio >= t.bound
	case t.strict:
		return ratio < t.bound
	}
	return ratio <= t.bound
}

func (t *target) better(a, b float64) bool {
	if t.most {
		return a < b
	}
	return a > b
}

// values returns a figure in each round.
func (b *bench) values(r ref) []float64 {
	for _, m := range b.measures {
		if m.key != r.measure {
			continue
		}
		if row := m.row(r.row); row != nil {
			return row.values(r.column)
		}
	}
	return nil
}
