package draw

// A spot is where a text stands: its x, and its foot.
type spot struct {
	at   side
	x, y float64
}

// cover is what a small text at a spot covers, with some room around it.
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

// labels finds spots for the texts of arrows that go from y to y+high, in so many lines, where they meet neither each other nor
// another arrow.
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
			for _, s := range []spot{{after, x + 8, foot}, {before, x - 8, foot}, {around, x, foot}, {after, x - 20, foot}, {before, x + 20, foot}} {
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
	for _, t := range taken {
		if b.meets(t) {
			return false
		}
	}
	for n, e := range edges {
		if n != own && b.crosses(e.x1, y, e.x2, y+high) {
			return false
		}
	}
	return true
}
