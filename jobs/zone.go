package jobs

import (
	"time"

	"github.com/robfig/cron/v3"
)

// A wallClock ticks when a wall clock of its zone matches a cron expression. Twice a year, in many zones, that clock jumps.
// The effect depends on the hours:
//
//   - An hour of * means every hour that passes: the clock's jump moves no tick. A time that the clock skips has no tick,
//     and an hour that it shows twice has the ticks of both.
//   - Any other hour names times of the day, each of which has one tick a day: the first time that the clock shows it, or,
//     if the clock skips it, the moment at which the clock jumps over it.
type wallClock struct {
	spec *cron.SpecSchedule // computes in UTC, as if the zone had no jumps
	zone *time.Location
}

// star is the bit that the parser sets for a field that is *.
const star = 1 << 63

func (w *wallClock) next(after time.Time) time.Time {
	if w.spec.Hour&star != 0 {
		return w.passing(after)
	}
	return w.named(after)
}

// passing goes from one offset of the zone to the next, and returns the first tick in one of them.
func (w *wallClock) passing(after time.Time) time.Time {
	for {
		_, offset := after.In(w.zone).Zone()
		shift := time.Duration(offset) * time.Second
		shown := w.spec.Next(after.UTC().Add(shift))
		if shown.IsZero() {
			return shown
		}
		tick := shown.Add(-shift)
		_, end := after.In(w.zone).ZoneBounds()
		if end.IsZero() || tick.Before(end) {
			return tick
		}
		if _, offset = end.Zone(); w.matches(end.UTC().Add(time.Duration(offset) * time.Second)) {
			return end.UTC()
		}
		after = end
	}
}

// matches reports whether the spec ticks at the clock's time.
func (w *wallClock) matches(shown time.Time) bool {
	return w.spec.Next(shown.Add(-time.Second)).Equal(shown)
}

// farthest is more than any clock has ever jumped, except across the date line.
const farthest = 3 * time.Hour

// named begins before any time that the clock could show again, and returns the first tick after the moment.
func (w *wallClock) named(after time.Time) time.Time {
	_, offset := after.In(w.zone).Zone()
	shown := after.UTC().Add(time.Duration(offset)*time.Second - farthest)
	for {
		shown = w.spec.Next(shown)
		if shown.IsZero() {
			return shown
		}
		if tick := w.first(shown); tick.After(after) {
			return tick
		}
	}
}

// first returns when the clock first shows a time, or jumps over it.
func (w *wallClock) first(shown time.Time) time.Time {
	y, m, d := shown.Date()
	at := time.Date(y, m, d, shown.Hour(), shown.Minute(), 0, 0, w.zone)
	start, end := at.ZoneBounds()
	_, offset := at.Zone()
	switch gap := at.UTC().Add(time.Duration(offset) * time.Second).Sub(shown); {
	case gap > 0: // the clock never shows it, and at is after the jump
		return start.UTC()
	case gap < 0:
		return end.UTC()
	}
	if start.IsZero() {
		return at.UTC()
	}
	_, before := start.Add(-time.Second).Zone()
	if earlier := shown.Add(-time.Duration(before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return at.UTC()
}
