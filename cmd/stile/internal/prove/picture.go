package prove

import (
	"fmt"
	"time"

	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/histogram"
)

// Pictures are a report's pictures, as SVG.
type Pictures struct {
	Faults []Picture // one for the first fault of each kind that hit, and one for the first violation
	Times  [][]byte  // hand-overs and waits
}

// A Picture is an SVG with a sentence about it.
type Picture struct {
	Text string
	SVG  []byte
}

// Draw draws the pictures.
func (o *Report) Draw() (p Pictures, err error) {
	if o.violation != 0 {
		if err := p.add(o, "The first violation", nil, o.violation-time.Second, o.violation+time.Second); err != nil {
			return p, err
		}
	}
	for _, kind := range Kinds {
		for _, f := range o.Faults {
			if f.Kind == kind && f.Hit {
				title := fmt.Sprintf("%s, at %v", kind, rounded(f.Begin))
				if err := p.add(o, title, f, f.Begin-500*time.Millisecond, f.End+500*time.Millisecond); err != nil {
					return p, err
				}
				break
			}
		}
	}
	for _, n := range o.Names {
		for _, t := range []struct {
			what  string
			times *histogram.Histogram
		}{{"from unlock until another process held that was waiting", &n.HandOvers}, {"waits for the lock", &n.Waits}} {
			if t.times.N == 0 {
				continue
			}
			svg, err := bars(n.Name+": "+t.what, t.times).SVG()
			if err != nil {
				return p, err
			}
			p.Times = append(p.Times, svg)
		}
	}
	return p, nil
}

// add draws the holds of the data from one time to another.
func (p *Pictures) add(o *Report, title string, f *Fault, from, to time.Duration) error {
	from = max(0, from)
	t := &draw.Timeline{
		Title: title, From: from.Seconds(), To: to.Seconds(), Unit: "s",
		Desc: "For each client, when it believed that it held the name " + dataName + ", and when it was hit.",
	}
	text := "Each line is a client; where it is filled the client believed that it held the name " + dataName + "."
	if f != nil {
		text += " The fault: " + what[f.Kind] + ", for " + rounded(f.End-f.Begin).String() + "."
	}
	for slot := range o.Workers {
		lane := draw.Lane{Name: fmt.Sprintf("client %d", slot+1)}
		if f != nil && (f.Worker == slot || f.Worker < 0) {
			mark(&lane, f)
		}
		for _, h := range o.sorted(dataName) {
			if h.Worker == slot && h.End >= from && h.Begin <= to {
				lane.Spans = append(lane.Spans, draw.Span{From: h.Begin.Seconds(), To: h.End.Seconds(), Kind: draw.Held})
			}
		}
		t.Lanes = append(t.Lanes, lane)
	}
	for _, a := range o.Away {
		t.Moments = append(t.Moments, draw.Moment{At: a.Begin.Seconds(), Text: "store away"})
	}
	svg, err := t.SVG()
	p.Faults = append(p.Faults, Picture{text, svg})
	return err
}

// mark marks a fault in the line of a client that it hit.
func mark(lane *draw.Lane, f *Fault) {
	begin, end := f.Begin.Seconds(), f.End.Seconds()
	switch f.Kind {
	case Kill:
		lane.Points = append(lane.Points, draw.Point{At: begin, Kind: draw.Failed, Text: "killed"})
	case Cut:
		lane.Spans = append(lane.Spans, draw.Span{From: begin, To: end, Kind: draw.Failed, Text: "cut off"})
	case Pause, Suspend:
		lane.Spans = append(lane.Spans, draw.Span{From: begin, To: end, Kind: draw.Paused, Text: "stands still"})
	}
}

// steps are the upper ends of the bars of a histogram.
var steps = func() (all []time.Duration) {
	for unit := 10 * time.Microsecond; unit < 1000*time.Second; unit *= 10 {
		all = append(all, unit, 2*unit, 5*unit)
	}
	return all
}()

// bars draws a histogram of durations.
func bars(title string, h *histogram.Histogram) *draw.Bars {
	counts := make([]int64, len(steps)+1)
	for d, n := range h.All() {
		i := 0
		for i < len(steps) && d > steps[i] {
			i++
		}
		counts[i] += n
	}
	p := draw.Panel{Heading: fmt.Sprintf("%d times; median %v, 99th percentile %v, longest %v", h.N,
		rounded(h.Quantile(0.5)), rounded(h.Quantile(0.99)), rounded(h.Most))}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		name := "longer"
		if i < len(steps) {
			name = "up to " + steps[i].String()
		}
		p.Bars = append(p.Bars, draw.Bar{Name: name, Value: float64(n), Text: fmt.Sprint(n), Kind: draw.Store})
	}
	return &draw.Bars{Title: title, Panels: []draw.Panel{p}}
}
