package draw

import (
	"fmt"
	"math"
	"strings"
)

// Bars shows figures as bars, in one panel per measurement.
type Bars struct {
	Title  string // stands over the picture
	Desc   string // the picture in words; empty means the figures
	Panels []Panel
}

// A Panel has comparable bars: the longest is as wide as the picture, and half the value is half as long.
type Panel struct {
	Heading string // the measurement, its unit, and the better direction
	Bars    []Bar
}

// A Bar is one figure.
type Bar struct {
	Name  string
	Value float64 // no bar if it is negative or not a number
	Text  string  // the value as readers see it
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

// words describes the figures, a sentence per panel.
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
