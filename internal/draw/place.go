package draw

import (
	"cmp"
	"math"
	"slices"
)

// A spot is where a text stands: its x, and its foot.
type spot struct {
	at   side
	x, y float64
}

// cover returns the box of a small text at a spot, with some room around it.
func (s spot) cover(text string) box {
	b := extent("n", s.at, s.x, s.y, text)
	return box{b.x - 3, b.y - 1, b.w + 6, b.h + 2}
}

// inside reports whether a box is in the picture, away from its edge.
func (b box) inside(wide float64) bool { return b.x >= margin-4 && b.x+b.w <= wide-margin+4 }

// crosses reports whether a line from x1, y1 to x2, y2 passes a box.
func (b box) crosses(x1, y1, x2, y2 float64) bool {
	const steps = 64
	for n := range steps + 1 {
		t := float64(n) / steps
		x, y := x1+(x2-x1)*t, y1+(y2-y1)*t
		if x > b.x && x < b.x+b.w && y > b.y && y < b.y+b.h {
			return true
		}
	}
	return false
}

// labels finds spots for the texts of arrows that go from y to y+high, in so many lines, where they meet neither each other
// nor another arrow.
func labels(edges []edge, y, high float64, lines int, wide float64) ([]spot, bool) {
	spots := make([]spot, len(edges))
	var taken []box
	ok := true
	for n, e := range edges {
		if e.Text == "" {
			continue
		}
		found := false
		for l := 0; l < lines && !found; l++ {
			foot := y + reach/2 + float64(l+1)*line - 5
			x := e.x1 + (e.x2-e.x1)*(foot-5-y)/high
			for _, s := range []spot{{after, x + 8, foot}, {before, x - 8, foot}, {around, x, foot}, {after, x - 20, foot},
				{before, x + 20, foot}} {
				if b := s.cover(e.Text); b.inside(wide) && clear(b, taken, edges, n, y, high) {
					spots[n], found = s, true
					taken = append(taken, b)
					break
				}
			}
		}
		ok = ok && found
	}
	return spots, ok
}

// clear reports whether a box meets none that is taken, and no arrow but its own.
func clear(b box, taken []box, edges []edge, own int, y, high float64) bool {
	if slices.ContainsFunc(taken, b.meets) {
		return false
	}
	for n, e := range edges {
		if n != own && b.crosses(e.x1, y, e.x2, y+high) {
			return false
		}
	}
	return true
}

// beside lists spots for the text of an arrow, the best first.
func beside(x1, y1, x2, y2 float64) (spots []spot) {
	for _, t := range []float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8} {
		x, y := x1+(x2-x1)*t, y1+(y2-y1)*t+5
		spots = append(spots, spot{after, x + 8, y}, spot{before, x - 8, y}, spot{around, x, y})
	}
	return spots
}

// written reports whether there is a text in a part of the picture.
func (c *canvas) written(b box) bool { return slices.ContainsFunc(c.texts, b.meets) }

// A notes is texts that belong to points on one line, and stand above or below that line, each with a thin line to its
// point.
type notes struct {
	*canvas
	arrows []box // that no text may cover, as if the line were at 0 and the texts below
	texts  []note
	taken  []box // by texts, likewise
	thin   []box // by the lines to their points, likewise
}

// A note is one text and where it stands.
type note struct {
	x         float64 // of the point
	lines     []string
	left, top float64
	bare      bool // without a line, since it belongs to a point so close to another that one line is for both
}

// near is how far points are apart whose texts can have a line each.
const near = 12

// add takes a text for the point at x.
func (n *notes) add(x float64, text string) {
	n.texts = append(n.texts, note{x: x, lines: wrap(text, small, false, across*0.42)})
}

// below writes the texts from y downwards and returns where they end.
func (n *notes) below(y float64) float64 {
	end := n.place()
	for _, t := range n.texts {
		if !t.bare {
			n.rule("", t.x, y, t.x, y+t.top+2)
		}
		n.write(t, y+t.top)
	}
	return y + end
}

// above writes the texts from y downwards, so that the next ones to the line below them come last. It returns that line's y.
func (n *notes) above(y float64) float64 {
	foot := y + n.place()
	for _, t := range n.texts {
		top := foot - t.top - float64(len(t.lines))*line
		if !t.bare {
			n.rule(" d", t.x, foot-t.top, t.x, foot)
		}
		n.write(t, top)
	}
	return foot
}

// place finds a place for every text, and returns how deep they reach. In the left half of the picture the last text comes
// first, and in the right half the first: what comes later can still stand deeper, to the side where nothing is yet.
func (n *notes) place() (deep float64) {
	slices.SortStableFunc(n.texts, func(a, b note) int { return cmp.Compare(a.x, b.x) })
	half := 0
	for half < len(n.texts) && n.texts[half].x < across/2 {
		half++
	}
	for i := half - 1; i >= 0; i-- {
		deep = max(deep, n.put(i, i+1))
	}
	for i := half; i < len(n.texts); i++ {
		deep = max(deep, n.put(i, i-1))
	}
	return deep
}

// put finds a place for text i, beside the text that came before, and returns how deep it reaches.
func (n *notes) put(i, last int) float64 {
	t := &n.texts[i]
	t.bare = last >= 0 && last < len(n.texts) && n.texts[last].lines != nil && math.Abs(n.texts[last].x-t.x) < near &&
		(last > i) == (t.x < across/2)
	for t.top = 6; !n.room(i) && t.top < 100*line; {
		t.top += line / 2
	}
	w, h := widest(t.lines, small, false), float64(len(t.lines))*line
	n.taken = append(n.taken, box{t.left - 4, t.top, w + 8, h})
	if !t.bare {
		n.thin = append(n.thin, box{t.x - 2, 0, 4, t.top})
	}
	return t.top + h
}

// room finds where text i can begin at its depth: in the middle of its point, or as far to a side as it has to go.
func (n *notes) room(i int) bool {
	t := &n.texts[i]
	w, h := widest(t.lines, small, false), float64(len(t.lines))*line
	outward := t.x - near/2
	if t.x >= across/2 {
		outward = t.x - w + near/2
	}
	for _, left := range []float64{t.x - w/2, t.x - w*0.2, t.x - w*0.8, t.x - 4, t.x - w + 4, outward} {
		t.left = min(max(left, margin), across-margin-w)
		b := box{t.left - 4, t.top, w + 8, h}
		free := !slices.ContainsFunc(n.taken, b.meets) && !slices.ContainsFunc(n.thin, b.meets) &&
			!slices.ContainsFunc(n.arrows, b.meets)
		if leader := (box{t.x - 2, 0, 4, t.top}); !t.bare {
			free = free && !slices.ContainsFunc(n.taken, leader.meets)
		}
		for j, o := range n.texts { // the lines that are still to come
			if left != outward && j != i && math.Abs(o.x-t.x) >= near && o.x > b.x && o.x < b.x+b.w {
				free = false
			}
		}
		if free {
			return true
		}
	}
	return false
}

// write writes the lines of a text whose upper edge is top.
func (n *notes) write(t note, top float64) {
	w := widest(t.lines, small, false)
	for i, l := range t.lines {
		n.text("n o", around, t.left+w/2, top+float64(i+1)*line-4, l)
	}
}
