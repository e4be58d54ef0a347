package draw

import (
	"cmp"
	"fmt"
	"slices"
)

// A Diagram is rows of boxes, one below the other, with arrows between boxes.
type Diagram struct {
	Title  string // stands over the picture
	Desc   string // the picture in words, for readers who do not see it
	Rows   []Row
	Arrows []Arrow
}

// A Row is boxes side by side. A row with a label has a frame around it: a queue, a process, a store.
type Row struct {
	Label string
	Boxes []Box
}

// A Box is one thing.
type Box struct {
	ID   string // for arrows
	Text string // its first line is bold
	Kind Kind
	Note string // stands below the box
}

// An Arrow goes from one box to a neighbour, or to a box of the next row.
type Arrow struct {
	From, To string // IDs
	Text     string
	Kind     Kind
}

const (
	pad   = 10 // inside of a box, and between a frame and its boxes
	apart = 14 // between boxes
	reach = 26 // an arrow without a text, between rows
)

// A placed is a box of a row with its lines and its place.
type placed struct {
	*Box
	row, at int
	lines   []string
	box
}

// A plan is a diagram while it is laid out.
type plan struct {
	*Diagram
	canvas
	rows [][]*placed
	byID map[string]*placed
	wide float64
}

// SVG draws the diagram. It fails without a title or description, and if an arrow does not fit the rows.
func (d *Diagram) SVG() ([]byte, error) {
	p, high, err := d.plan()
	if err != nil {
		return nil, err
	}
	return p.finish(d.Title, d.Desc, p.wide, high)
}

// plan lays the diagram out and returns its height.
func (d *Diagram) plan() (*plan, float64, error) {
	p := &plan{Diagram: d, byID: map[string]*placed{}, wide: across}
	for i := range d.Rows {
		var row []*placed
		for j := range d.Rows[i].Boxes {
			b := &d.Rows[i].Boxes[j]
			n := &placed{Box: b, row: i, at: j}
			if _, twice := p.byID[b.ID]; twice && b.ID != "" {
				return nil, 0, fmt.Errorf("two boxes have the id %q", b.ID)
			}
			p.byID[b.ID] = n
			row = append(row, n)
		}
		p.rows = append(p.rows, row)
	}
	for _, a := range d.Arrows {
		if err := p.fits(a); err != nil {
			return nil, 0, err
		}
	}
	for i := range p.rows {
		p.wide = max(p.wide, p.widths(i)+2*(margin+pad))
	}
	y := p.heading(d.Title, p.wide)
	for i := range p.rows {
		p.spread(i)
		if i > 0 {
			y = p.between(i, y)
		}
		y = p.draw(i, y)
	}
	p.neighbours()
	return p, y + margin, nil
}

// fits returns an error if an arrow's boxes are not there, or not next to each other.
func (p *plan) fits(a Arrow) error {
	from, to := p.byID[a.From], p.byID[a.To]
	switch {
	case a.From == "" || from == nil:
		return fmt.Errorf("an arrow begins at %q, and no box has this id", a.From)
	case a.To == "" || to == nil:
		return fmt.Errorf("an arrow ends at %q, and no box has this id", a.To)
	case from.row == to.row && abs(from.at-to.at) == 1, abs(from.row-to.row) == 1:
		return nil
	}
	return fmt.Errorf("the arrow from %q to %q passes other boxes", a.From, a.To)
}

func abs(n int) int { return max(n, -n) }

// gap is the room between a box and the next of its row, for the texts of the arrows between them.
func (p *plan) gap(row, at int) float64 {
	room := float64(apart)
	for _, a := range p.Arrows {
		from, to := p.byID[a.From], p.byID[a.To]
		if from.row == row && to.row == row && min(from.at, to.at) == at {
			room = max(room, 34, width(a.Text, small, false)+18)
		}
	}
	return room
}

// pair is how many arrows there are between a box and the next of its row.
func (p *plan) pair(row, at int) (n int) {
	for _, a := range p.Arrows {
		from, to := p.byID[a.From], p.byID[a.To]
		if from.row == row && to.row == row && min(from.at, to.at) == at {
			n++
		}
	}
	return n
}

// widths breaks the texts of a row's boxes so that the row fits, and returns how wide it became.
func (p *plan) widths(i int) float64 {
	row := p.rows[i]
	if len(row) == 0 {
		return width(p.Rows[i].Label, small, false)
	}
	gaps := 0.0
	for at := range row[1:] {
		gaps += p.gap(i, at)
	}
	room := across - 2*(margin+pad) - gaps
	share := room / float64(len(row))
	most, sum := 0.0, 0.0
	for _, b := range row {
		b.lines = wrap(b.Text, body, true, room)
		b.w = b.natural()
		most, sum = max(most, b.w), sum+b.w
	}
	if most > share && sum > room { // narrow boxes keep their width, and the others share the rest
		narrow, wide := 0.0, len(row)
		for _, b := range row {
			if b.w <= share {
				narrow, wide = narrow+b.w, wide-1
			}
		}
		sum = 0
		for _, b := range row {
			if b.w > share {
				b.lines = wrap(b.Text, body, true, (room-narrow)/float64(wide)-2*pad)
				b.w = b.natural()
			}
			sum += b.w
			most = max(most, b.w)
		}
	}
	if most <= share { // all alike, and no wider than looks well
		for _, b := range row {
			b.w = min(share, most*1.3)
		}
		sum = row[0].w * float64(len(row))
	}
	return max(sum+gaps, width(p.Rows[i].Label, small, false))
}

// natural is the width that the lines of a box, and the note below, need.
func (b *placed) natural() float64 {
	return max(widest(b.lines[:1], body, true), widest(b.lines[1:], body, false), width(b.Note, small, false)-2*pad) + 2*pad
}

// spread puts the boxes of a row side by side, in the middle.
func (p *plan) spread(i int) {
	sum := 0.0
	for at, b := range p.rows[i] {
		if at > 0 {
			sum += p.gap(i, at-1)
		}
		sum += b.w
	}
	x := (p.wide - sum) / 2
	for at, b := range p.rows[i] {
		if at > 0 {
			x += p.gap(i, at-1)
		}
		b.x = x
		x += b.w
	}
}

// draw draws a row whose upper edge is y, and returns where it ends.
func (p *plan) draw(i int, y float64) float64 {
	label, top, below := p.Rows[i].Label, y, p.labelBelow(i)
	switch {
	case label == "":
	case below:
		y += pad
	default:
		p.text("n q o", after, margin+pad, y+line, label)
		y += line + pad
	}
	high, notes := 0.0, 0.0
	for _, b := range p.rows[i] {
		high = max(high, float64(len(b.lines))*line+1.6*pad)
		if b.at > 0 {
			high = max(high, float64(p.pair(i, b.at-1))*(line+4)+pad)
		}
		if b.Note != "" {
			notes = line + 2
		}
	}
	for _, b := range p.rows[i] {
		b.y, b.h = y, high
		p.area(b.box, b.Kind)
		x := b.middle()
		at := y + (high-float64(len(b.lines))*line)/2 + body - 0.5
		for n, l := range b.lines {
			class := b.Kind.class()
			if n == 0 {
				class += " b"
			}
			p.text(class, around, x, at+float64(n)*line, l)
		}
		p.text("n q o", around, x, y+high+line-3, b.Note)
	}
	y += high + notes
	if label != "" {
		y += pad
		if below {
			y += line
			p.text("n q o", after, margin+pad, y-pad/2-2, label)
		}
		p.rect(box{margin, top, p.wide - 2*margin, y - top}, "r", 6)
	}
	return y
}

// labelBelow reports whether the label of a row stands below its boxes, since only arrows from above would go through it.
func (p *plan) labelBelow(i int) bool {
	above, below := 0, 0
	for _, a := range p.Arrows {
		from, to := p.byID[a.From], p.byID[a.To]
		switch {
		case from.row == to.row || from.row != i && to.row != i:
		case min(from.row, to.row) == i:
			below++
		default:
			above++
		}
	}
	return above > 0 && below == 0
}

// neighbours draws the arrows inside of rows.
func (p *plan) neighbours() {
	done := map[[2]*placed]int{}
	for _, a := range p.Arrows {
		from, to := p.byID[a.From], p.byID[a.To]
		if from.row != to.row {
			continue
		}
		left, right := from, to
		if left.at > right.at {
			left, right = right, left
		}
		pair := [2]*placed{left, right}
		y := left.y + left.h/2 + 2 + (float64(done[pair])-float64(p.pair(left.row, left.at)-1)/2)*(line+4)
		if a.Text != "" {
			y += 6
		}
		done[pair]++
		x1, x2 := left.x+left.w+2, right.x-2
		p.text("n o", around, (x1+x2)/2, y-7, a.Text)
		if from == right {
			x1, x2 = x2, x1
		}
		p.arrow(a.Kind, x1, y, x2, y)
	}
}

// An edge is an arrow between two rows, and where its text may stand.
type edge struct {
	Arrow
	x1, x2 float64 // at the upper and at the lower row
	down   bool
}

// between draws the arrows from the row before to row i, whose upper edge is not yet known, and returns that edge.
func (p *plan) between(i int, y float64) float64 {
	edges := p.edges(i)
	if len(edges) == 0 {
		return y + apart
	}
	for lines := len(edges) / 3; ; lines++ {
		high := reach + float64(lines)*line
		spots, ok := labels(edges, y, high, lines, p.wide)
		if !ok && lines < 12 {
			continue
		}
		end := y + high
		for n, e := range edges {
			y1, y2 := y+2, end-2
			if p.Rows[i].Label != "" { // through the frame to the box
				y2 += pad
				if !p.labelBelow(i) {
					y2 += line
				}
			}
			if p.Rows[i-1].Label != "" {
				y1 -= pad
			}
			x1, x2 := e.x1, e.x2
			if !e.down {
				x1, y1, x2, y2 = x2, y2, x1, y1
			}
			p.arrow(e.Kind, x1, y1, x2, y2)
			if e.Text != "" {
				p.text("n o", spots[n].at, spots[n].x, spots[n].y, e.Text)
			}
		}
		return end
	}
}

// edges are the arrows between row i and the one before. Those on one side of a box are spread over its width.
func (p *plan) edges(i int) (edges []edge) {
	ends := map[*placed][]int{}
	for _, a := range p.Arrows {
		from, to := p.byID[a.From], p.byID[a.To]
		if min(from.row, to.row) != i-1 || max(from.row, to.row) != i {
			continue
		}
		e := edge{Arrow: a, down: from.row < to.row}
		if !e.down {
			from, to = to, from
		}
		e.x1 = from.middle()
		e.x2 = to.middle()
		ends[from] = append(ends[from], len(edges))
		ends[to] = append(ends[to], len(edges))
		edges = append(edges, e)
	}
	middles := slices.Clone(edges)
	for b, all := range ends {
		upper := b.row == i-1
		slices.SortStableFunc(all, func(m, n int) int {
			if upper {
				return cmp.Compare(middles[m].x2, middles[n].x2)
			}
			return cmp.Compare(middles[m].x1, middles[n].x1)
		})
		for k, n := range all {
			x := b.x + b.w*float64(k+1)/float64(len(all)+1)
			if upper {
				edges[n].x1 = x
			} else {
				edges[n].x2 = x
			}
		}
	}
	for n := range edges {
		from, to := p.byID[edges[n].From], p.byID[edges[n].To]
		left, right := max(from.x, to.x), min(from.x+from.w, to.x+to.w)
		if len(ends[from]) == 1 && len(ends[to]) == 1 && right-left >= 4*pad { // one above the other: straight down
			edges[n].x1, edges[n].x2 = (left+right)/2, (left+right)/2
		}
	}
	return edges
}
