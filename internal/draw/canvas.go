package draw

import (
	"encoding/xml"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
)

const (
	across = 460 // width of a picture
	margin = 14  // that nothing but the background is in
)

var errTitle = errors.New("a picture needs a title and a description, which say in words what it shows")

// A box is a part of the picture: from x, y to x+w, y+h.
type box struct{ x, y, w, h float64 }

func (b box) meets(o box) bool {
	return b.x < o.x+o.w && o.x < b.x+b.w && b.y < o.y+o.h && o.y < b.y+b.h
}

func (b box) middle() float64 { return b.x + b.w/2 }

// A side is where a text stands from its x.
type side string

const (
	after  side = "start"
	around side = "middle"
	before side = "end"
)

// A canvas collects the parts of a picture, in four layers: guide lines, areas, lines and texts.
type canvas struct {
	rules, areas, lines, letters strings.Builder

	texts []box // where each text is at most
	used  [kinds]bool
}

// number writes a coordinate with at most one digit after the point.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// area draws a rectangle with round corners.
func (c *canvas) area(b box, k Kind) {
	c.used[k] = true
	class := k.class()
	if k == Waiting {
		class += " d"
	}
	c.rect(b, class, 4)
	if k == Paused {
		c.hatch(b, k)
	}
}

func (c *canvas) rect(b box, class string, round float64) {
	fmt.Fprintf(&c.areas, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s"/>`+"\n",
		class, number(b.x), number(b.y), number(b.w), number(b.h), number(round))
}

// hatch draws slanted strokes along the lower edge of a rectangle, below its text.
func (c *canvas) hatch(b box, k Kind) {
	const high, apart = 4, 7
	d := ""
	for x := b.x + 4; x+high < b.x+b.w-1; x += apart {
		d += fmt.Sprintf("M%s %sl%d -%d", number(x), number(b.y+b.h-1), high, high)
	}
	if d != "" {
		fmt.Fprintf(&c.areas, `<path class="%s" d="%s"/>`+"\n", k.class(), d)
	}
}

// stroke draws a line through points.
func (c *canvas) stroke(class string, points ...float64) { polyline(&c.lines, class, points) }

// rule draws a line below all areas.
func (c *canvas) rule(class string, points ...float64) { polyline(&c.rules, "r"+class, points) }

func polyline(layer *strings.Builder, class string, points []float64) {
	d := ""
	for i := 0; i < len(points); i += 2 {
		d += string("ML"[min(i, 1)]) + number(points[i]) + " " + number(points[i+1])
	}
	fmt.Fprintf(layer, `<path class="%s" d="%s"/>`+"\n", class, d)
}

// arrow draws a line with a head at its end, dashed if it is for a request that failed.
func (c *canvas) arrow(k Kind, x1, y1, x2, y2 float64) {
	c.used[k] = true
	long := math.Hypot(x2-x1, y2-y1)
	if long == 0 {
		return
	}
	ux, uy := (x2-x1)/long, (y2-y1)/long
	class := k.class()
	if k == Failed || k == Waiting {
		class += " d"
	}
	c.stroke(class, x1, y1, x2-8*ux, y2-8*uy)
	bx, by := x2-9*ux, y2-9*uy
	fmt.Fprintf(&c.lines, `<path class="%s %[1]sx" d="M%s %sL%s %sL%s %sZ"/>`+"\n", k.class(),
		number(x2), number(y2), number(bx-4*uy), number(by+4*ux), number(bx+4*uy), number(by-4*ux))
}

// text writes one line whose foot is at y. Its class may have b, bold; n, small; o, with a rim that covers lines.
func (c *canvas) text(class string, at side, x, y float64, text string) {
	if text == "" {
		return
	}
	c.texts = append(c.texts, extent(class, at, x, y, text))
	fmt.Fprintf(&c.letters, `<text`)
	if class != "" {
		fmt.Fprintf(&c.letters, ` class="%s"`, class)
	}
	if at != after {
		fmt.Fprintf(&c.letters, ` text-anchor="%s"`, at)
	}
	fmt.Fprintf(&c.letters, ` x="%s" y="%s">%s</text>`+"\n", number(x), number(y), escaped(text))
}

// extent returns the box of a text.
func extent(class string, at side, x, y float64, text string) box {
	size := float64(body)
	classes := strings.Fields(class)
	bold := false
	for _, name := range classes {
		switch name {
		case "n":
			size = small
		case "b":
			bold = true
		}
	}
	w := width(text, size, bold)
	switch at {
	case around:
		x -= w / 2
	case before:
		x -= w
	}
	return box{x, y - size*0.8, w, size}
}

// heading writes the title on top and returns where the rest begins.
func (c *canvas) heading(title string, wide float64) (y float64) {
	y = margin
	for _, l := range wrap(title, body, true, wide-2*margin) {
		c.text("b", after, margin, y+body, l)
		y += line + 1
	}
	return y + 10
}

// finish returns the picture.
func (c *canvas) finish(title, desc string, wide, high float64) ([]byte, error) {
	if title == "" || desc == "" {
		return nil, errTitle
	}
	sum := fnv.New32a()
	sum.Write([]byte(title + "\n" + desc))
	id := fmt.Sprintf("d%08x", sum.Sum32())
	const scale = 1.1 // so that text is as high as the page's where the page is wide enough
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" id="%s" viewBox="0 0 %s %s" width="%s" height="%s" `+
		`role="img" aria-labelledby="%[1]s-t %[1]s-d">`+"\n", id, number(wide), number(high), number(wide*scale), number(high*scale))
	fmt.Fprintf(&b, "<title id=\"%s-t\">%s</title>\n<desc id=\"%[1]s-d\">%[3]s</desc>\n", id, escaped(title), escaped(desc))
	fmt.Fprintf(&b, "<style>%s</style>\n", style(id, c.used))
	fmt.Fprintf(&b, `<rect class="g" x="0.5" y="0.5" width="%s" height="%s" rx="8"/>`+"\n", number(wide-1), number(high-1))
	b.WriteString(c.rules.String() + c.areas.String() + c.lines.String() + c.letters.String() + "</svg>\n")
	return []byte(b.String()), nil
}
