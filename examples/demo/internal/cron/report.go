//go:build unix

package cron

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/jobs"
)

// A CronDemoView is the outcome in JSON. Programs rely on the keys, all of which are always there.
type CronDemoView struct {
	Machines int             `json:"machines"`
	Lease    answer.Seconds  `json:"lease"`
	KilledAt int             `json:"killed_at"` // the number of the tick in whose run a machine was killed
	StuckAt  int             `json:"stuck_at"`
	Columns  []cronFleetView `json:"columns"`
}

// A cronFleetView is one column of the table.
type cronFleetView struct {
	Column string         `json:"column"`
	Ticks  int            `json:"ticks"`
	Runs   int            `json:"runs"`
	Once   int            `json:"ran_once"`
	More   int            `json:"ran_more_than_once"`
	None   int            `json:"not_ended"`
	CutOff int            `json:"cut_off"`
	Over   answer.Seconds `json:"taken_over_after"`
	Took   answer.Seconds `json:"took"`
}

func (d *cronDemo) print(free, locked *fleet) error {
	v := CronDemoView{Machines: d.machines, Lease: answer.SecondsOf(d.ttl), KilledAt: locked.killAt + 1,
		StuckAt: locked.stickAt + 1}
	for _, h := range []*fleet{free, locked} {
		c := cronFleetView{Column: h.title, Ticks: len(h.ticks), Runs: h.runs(), Over: answer.SecondsOf(h.over),
			Took: answer.SecondsOf(h.took)}
		c.Once, c.More, c.None = h.count()
		for _, t := range h.ticks {
			c.CutOff += t.CutOff
		}
		v.Columns = append(v.Columns, c)
	}
	if d.JSON {
		return answer.JSON(d.Out, v, "  ")
	}
	var rows [][]string
	for _, row := range []struct {
		name string
		cell func(c cronFleetView) string
	}{
		{"ticks", func(c cronFleetView) string { return strconv.Itoa(c.Ticks) }},
		{"runs that began", func(c cronFleetView) string { return strconv.Itoa(c.Runs) }},
		{"ticks that came to their end once", func(c cronFleetView) string { return strconv.Itoa(c.Once) }},
		{"more than once", func(c cronFleetView) string { return strconv.Itoa(c.More) }},
		{"runs that were cut off", func(c cronFleetView) string { return strconv.Itoa(c.CutOff) }},
	} {
		rows = append(rows, []string{"  " + row.name, row.cell(v.Columns[0]), row.cell(v.Columns[1])})
	}
	d.Say("")
	if err := answer.Table(d.Out, "  \tWITHOUT LOCK\tWITH LOCK", rows); err != nil {
		return err
	}
	d.Say("")
	if n := v.Columns[0].More; n > 0 {
		d.Say("Without a lock, %d of %d ticks ran more than once.", n, v.Columns[0].Ticks)
	}
	if t := locked.ticks[locked.killAt]; len(t.Runs) > 1 {
		again := t.Runs[len(t.Runs)-1]
		d.Say("With the lock, machine %d was killed in its run, and machine %d ran that tick %v later, with token %d after %d.",
			t.Runs[0].machine, again.machine, phrase.Rounded(locked.over), again.token, t.Runs[0].token)
	}
	if i := slices.IndexFunc(locked.ticks, func(t *tickPast) bool { return t.CutOff > 0 }); i >= 0 {
		d.Say("The stuck run of machine %d was cut off after %v, and the ticks behind it ran.", locked.ticks[i].Runs[0].machine,
			cronMaxHold)
	}
	return nil
}

// cronTimeline returns the picture: which machine ran when, without the lock and with it.
func cronTimeline(fleets ...*fleet) *draw.Timeline {
	t := &draw.Timeline{
		Title: "Which machine ran the job when", Unit: "s",
		Desc: "The runs of each machine, without the lock and with it. With the lock one machine runs a tick; one is killed in " +
			"its run, " +
			"after which another runs that tick, and one run is stuck until it is cut off.",
	}
	for _, h := range fleets {
		t.To = max(t.To, h.took.Seconds())
		for number := range h.machines {
			lane := draw.Lane{Name: fmt.Sprintf("%s: machine %d", h.title, number+1)}
			for _, tick := range h.ticks {
				for _, r := range tick.Runs {
					if r.machine == number+1 {
						r.mark(&lane)
					}
				}
			}
			t.Lanes = append(t.Lanes, lane)
		}
	}
	return t
}

func (r *tickRun) mark(lane *draw.Lane) {
	point := func(kind draw.Kind, text string) {
		lane.Points = append(lane.Points, draw.Point{At: r.begun.Seconds(), Kind: kind, Text: text})
	}
	switch {
	case r.killed:
		point(draw.Failed, "killed")
	case r.outcome == jobs.CutOff:
		lane.Spans = append(lane.Spans,
			draw.Span{From: r.begun.Seconds(), To: r.ended.Seconds(), Kind: draw.Paused, Text: "stuck"})
	default:
		point(draw.Held, "")
	}
}
