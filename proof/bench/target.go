//go:build unix

package main

import (
	"math"
	"slices"
	"strings"
)

// A target is a bound on the ratio of one of stile's figures to something else.
type target struct {
	text    string
	measure string
	row     string // stile's row
	column  string
	unit    string
	against []ref   // the rows to compare with; the best one counts
	fixed   float64 // compared with instead, if there are no such rows
	most    bool    // the ratio must be at most the bound, otherwise at least; this also says which row is the best
	bound   float64
	strict  bool // with most: must be below the bound

	bare  string   // the row of the bare limit; "" means that none is known
	peers []string // rows that must not be faster if the bare limit is to count; nil means all other libraries of the measure
}

// nearly is how close to the bare limit a figure must be to count instead of a target that cannot be met.
const nearly = 0.15

// A ref names a row of a measure, and its column if that differs from the target's.
type ref struct{ measure, row, column string }

// rivals returns refs to rows of a measure.
func rivals(measure string, rows ...string) []ref {
	var list []ref
	for _, r := range rows {
		list = append(list, ref{measure: measure, row: r})
	}
	return list
}

// A verdict is the result of a target.
type verdict struct {
	ours, theirs float64 // medians
	rival        string  // the row of theirs, the best by its median
	ratios       []float64
	met          bool

	limit   float64   // the bare limit, a median; NaN if none is known
	toLimit []float64 // ratios to the limit
	near    bool      // near the limit
	faster  string    // a peer that is faster, or ""
}

// word returns the verdict as a word.
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

// noLibraries are rows that are not a library's locks.
var noLibraries = []string{
	pings, bareSetNX, bareScripts, bareList, barePublish, bareExpire, bareTurns, bareRing, bareRing + threeServers, bare, pgBare, pgNotice, mysqlBare, bareKill, sqliteBare, sqlitePass, etcdBare, etcdKeeps, zooKeeperBare, zooKeeperLine, consulBare,
	linkedTrue, linked,
}

// The words for verdicts on the pages.
const (
	isMet    = "met"
	isNear   = "within 15 % of the bare limit"
	isMissed = "**missed**"
)

// judge compares the measured figures with a target; it returns nil if they were not measured.
func (b *bench) judge(t *target) *verdict {
	mine := b.values(ref{t.measure, t.row, t.column})
	if len(mine) == 0 {
		return nil
	}
	v := &verdict{ours: median(mine), theirs: math.NaN(), limit: math.NaN()}
	best := make([]float64, len(mine)) // best value of each round
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

// limits compares the measured figures with the bare limit and with the peers.
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

// ratios divides the figures of each round by others of the same round.
func (b *bench) ratios(mine, other []float64) []float64 {
	list := make([]float64, len(mine))
	for i := range mine {
		by := other[i]
		if by == 0 && b.window > 0 {
			by = 1 / b.window.Seconds() // none at all counts as one in the window
		}
		list[i] = mine[i] / by
	}
	return list
}

// peersOf returns the rows that must not be faster if the bare limit is to count.
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

// near reports whether a ratio to the bare limit is as good as the limit, within nearly.
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
