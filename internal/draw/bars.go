package draw

import (
	"fmt"
	"math"
	"strings"
)

// Bars shows figures as bars, in one panel for each thing that was measured.
type Bars struct {
	Title  string // stands over the picture
	Desc   string // says in words what the picture shows; without one, it is the figures
	Panels []Panel
}

// A Panel is bars that can be compared: the longest is as long as the picture is wide, and one of half the value half as
// long.
type Panel struct {
	Heading string // what was measured, in which unit, and what is better
	Bars    []Bar
}

// A Bar is one figure.
type Bar struct {
	Name  string
	Value float64 // less than zero, and what is no number, has no bar
	Text  string  // the value as it is to be read
	Kind  Kind
}

// SVG draws the bars. It fails without a title or a panel.
func (b *Bars) SVG() ([]byte, error) {
	var c canvas
	y := c.heading(b.Title, across)
	for i, p := range b.Panels {
		if i > 0 {
			y += line
		}
		for _, l := range wrap(p.Heading, small, false, across-2*margin) {
			c.text("n q", after, margin, y+small, l)
			y += line
		}
		y = c.panel(&p, y+4)
	}
	desc := b.Desc
	if desc == "" {
		desc = b.words()
	}
	return c.finish(b.Title, desc, across, y+margin)
}

// panel draws the bars of a panel from y downwards and returns where they end.
func (c *canvas) panel(p *Panel, y float64) float64 {
	const high = 8
	most := 0.0
	for _, b := range p.Bars {
		if b.Value > 0 && !math.IsInf(b.Value, 1) {
			most = max(most, b.Value)
		}
	}
	for i, b := range p.Bars {
		if i > 0 {
			y += 8
		}
		bold := ""
		if b.Kind == Held {
			bold = "b "
		}
		room := across - 2*margin - width(b.Text, small, true) - 12
		for n, l := range wrap(b.Name, small, bold != "", room) {
			if n == 0 {
				c.text(bold+"n", before, across-margin, y+small, b.Text)
			}
			c.text(bold+"n", after, margin, y+small, l)
			y += line
		}
		c.rect(box{margin, y, across - 2*margin, high}, "y", 2)
		if b.Value > 0 && most > 0 {
			c.used[b.Kind] = true
			c.rect(box{margin, y, max((across-2*margin)*min(b.Value/most, 1), 2), high}, b.Kind.class()+"b", 2)
		}
		y += high
	}
	return y
}

// words says the figures in a sentence for each panel.
func (b *Bars) words() string {
	var text []string
	for _, p := range b.Panels {
		var figures []string
		for _, bar := range p.Bars {
			figures = append(figures, fmt.Sprintf("%s %s", bar.Name, bar.Text))
		}
		text = append(text, p.Heading+": "+strings.Join(figures, ", ")+".")
	}
	return strings.Join(text, " ")
}
