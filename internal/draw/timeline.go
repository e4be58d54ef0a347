package draw

import (
	"fmt"
	"math"
	"slices"
)

// A Timeline shows what happened when: a lane for each process or store, one below the other, over one axis of time.
type Timeline struct {
	Title    string  // stands over the picture
	Desc     string  // the picture in words, for readers who do not see it
	From, To float64 // the times at the left and right edge; the rest is cut off
	Unit     string  // of the axis, such as "s"; without one there is no axis
	Lanes    []Lane
	Moments  []Moment
	Messages []Message
}

// A Lane is the story of one process or store.
type Lane struct {
	Name   string
	Spans  []Span
	Points []Point
}

// A Span is a state with a beginning and an end. Its text stands in it, or below where there is no room.
type Span struct {
	From, To float64
	Kind     Kind
	Text     string
}

// A Point is something that happened at once: a request, a write, a fault.
type Point struct {
	At   float64
	Kind Kind
	Text string // below the point
}

// A Moment is a line through all lanes.
type Moment struct {
	At   float64
	Text string
}

// A Message goes from one lane to another.
type Message struct {
	From, To   int // indexes of lanes
	Sent, Came float64
	Kind       Kind
	Text       string
}

const (
	band  = 26 // height of a span
	track = 4  // from the edge of the picture's part to where time begins
)

// A chart is a timeline while it is drawn.
type chart struct {
	*Timeline
	canvas
	lanes []float64 // the upper edge of each lane's spans
}

// SVG draws the timeline. It fails without a title or description, if time does not go on from From to To, and if a message
// is from or to a lane that is not there.
func (t *Timeline) SVG() ([]byte, error) {
	if !(t.From < t.To) || math.IsInf(t.From, 0) || math.IsInf(t.To, 0) {
		return nil, fmt.Errorf("time goes from %v to %v", t.From, t.To)
	}
	for _, m := range t.Messages {
		if min(m.From, m.To) < 0 || max(m.From, m.To) >= len(t.Lanes) {
			return nil, fmt.Errorf("a message goes from lane %d to lane %d, and there are %d", m.From, m.To, len(t.Lanes))
		}
	}
	c := &chart{Timeline: t}
	y := c.moments(c.heading(t.Title, across))
	top := y
	for i := range t.Lanes {
		y = c.lane(i, y)
	}
	for _, m := range t.Moments {
		if c.shown(m.At) {
			c.rule(" d", c.x(m.At), top, c.x(m.At), y)
		}
	}
	c.messages()
	if t.Unit != "" {
		y = c.axis(y)
	}
	return c.finish(t.Title, t.Desc, across, y+margin)
}

// x returns the place of a moment; moments outside of the axis are put at its end.
func (c *chart) x(at float64) float64 {
	const left, right = margin + track, across - margin - track
	return left + (right-left)*min(max((at-c.From)/(c.To-c.From), 0), 1)
}

func (c *chart) shown(at float64) bool { return at >= c.From && at <= c.To }

// moments writes the texts of the lines through all lanes, and returns where the lanes begin.
func (c *chart) moments(y float64) float64 {
	texts := notes{canvas: &c.canvas}
	for _, m := range c.Moments {
		if c.shown(m.At) && m.Text != "" {
			texts.add(c.x(m.At), m.Text)
		}
	}
	return texts.above(y)
}

// lane draws lane i, whose upper edge is y, and returns where it ends.
func (c *chart) lane(i int, y float64) float64 {
	l := c.Lanes[i]
	c.text("n b o", after, margin, y+body, l.Name)
	if l.Name != "" {
		y += line + 2
	}
	c.lanes = append(c.lanes, y)
	middle := y + band/2
	c.rule("", margin, middle, across-margin, middle)
	texts := notes{canvas: &c.canvas, arrows: c.incoming(i)}
	for _, s := range l.Spans {
		if s.To < c.From || s.From > c.To {
			continue
		}
		b := box{c.x(s.From), y, max(c.x(s.To)-c.x(s.From), 1), band}
		if b.w < 8 { // an edge would leave nothing between
			c.used[s.Kind] = true
			c.rect(b, s.Kind.class()+"b", 0)
		} else {
			c.area(b, s.Kind)
		}
		x := b.middle()
		switch {
		case s.Text == "":
		case width(s.Text, small, false)+8 <= b.w:
			c.text(s.Kind.class()+" n", around, x, middle+4.5, s.Text)
		default:
			texts.add(x, s.Text)
		}
	}
	for _, p := range l.Points {
		if c.shown(p.At) {
			c.glyph(p.Kind, c.x(p.At), middle)
			if p.Text != "" {
				texts.add(c.x(p.At), p.Text)
			}
		}
	}
	y = texts.below(y+band) + 10
	if slices.ContainsFunc(c.Messages, func(m Message) bool { return m.Text != "" && min(m.From, m.To) == i }) {
		y += line
	}
	return y
}

// incoming returns the boxes right below a lane that the arrows between it and lower lanes cover.
func (c *chart) incoming(i int) (all []box) {
	for _, m := range c.Messages {
		upper, lower, at := m.From, m.To, m.Sent
		if upper > lower {
			upper, lower, at = lower, upper, m.Came
		}
		if upper <= i && i < lower {
			all = append(all, box{c.x(at) - 3, 0, 6, 3 * line})
		}
	}
	return all
}

// glyph draws a point: a cross for a failure, a diamond for a doubt, a square for the store, else a disc.
func (c *chart) glyph(k Kind, x, y float64) {
	c.used[k] = true
	class := k.class()
	switch k {
	case Failed:
		c.stroke(class+" v", x-4.5, y-4.5, x+4.5, y+4.5)
		c.stroke(class+" v", x-4.5, y+4.5, x+4.5, y-4.5)
	case Paused:
		c.stroke(class+" "+class+"x", x, y-7, x+7, y, x, y+7, x-7, y, x, y-7)
	case Store:
		c.stroke(class+" "+class+"x", x-5, y-5, x+5, y-5, x+5, y+5, x-5, y+5, x-5, y-5)
	default:
		fmt.Fprintf(&c.lines, `<path class="%s %[1]sx" d="M%s %sa5 5 0 1 0 10 0a5 5 0 1 0 -10 0"/>`+"\n", class, number(x-5),
			number(y))
	}
}

// messages draws the arrows between lanes, with texts where there is room.
func (c *chart) messages() {
	for _, m := range c.Messages {
		x1, y1, x2, y2 := c.x(m.Sent), c.lanes[m.From], c.x(m.Came), c.lanes[m.To]
		if m.From < m.To {
			y1 += band
		} else {
			y2 += band
		}
		c.arrow(m.Kind, x1, y1, x2, y2)
		if m.Text == "" {
			continue
		}
		best := spot{around, (x1 + x2) / 2, (y1+y2)/2 + 5}
		for _, s := range beside(x1, y1, x2, y2) {
			if b := s.cover(m.Text); b.inside(across) && !c.written(b) && !c.busy(b) {
				best = s
				break
			}
		}
		c.text("n o", best.at, best.x, best.y, m.Text)
	}
}

// busy reports whether a part of the picture meets the spans of a lane.
func (c *chart) busy(b box) bool {
	return slices.ContainsFunc(c.lanes, func(y float64) bool { return b.meets(box{0, y, across, band}) })
}

// axis draws the axis at y, and returns where it ends.
func (c *chart) axis(y float64) float64 {
	y += 2
	c.stroke("q", margin, y, across-margin, y)
	step := ticks(c.To - c.From)
	last := math.Inf(-1)
	for n := math.Ceil(c.From / step); n*step <= c.To; n++ {
		x, text := c.x(n*step), number(n*step)+" "+c.Unit
		if step < 0.1 {
			text = fmt.Sprintf("%.3g %s", n*step, c.Unit)
		}
		c.stroke("q", x, y, x, y+5)
		w := width(text, small, false)
		left := min(max(x-w/2, margin), across-margin-w)
		if left > last+8 {
			c.text("n q", after, left, y+5+body, text)
			last = left + w
		}
	}
	return y + 5 + line
}

// ticks is a round number of which four to ten go into a length.
func ticks(length float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(length)))
	for _, part := range []float64{0.1, 0.2, 0.25, 0.5} {
		if length/(part*ten) <= 8 && (part != 0.25 || ten >= 100) {
			return part * ten
		}
	}
	return ten
}
