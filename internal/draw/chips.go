package draw

import "strings"

// Chips shows many short things in groups, one after the other as the words of a line.
type Chips struct {
	Title  string // stands over the picture
	Note   string // stands below the title, and says how to read the chips
	Desc   string // the picture in words; empty means the note and the chips
	Groups []Group
}

// A Group is chips that belong together.
type Group struct {
	Name  string
	Chips []Chip
}

// A Chip is one thing. Its text says what its kind says, as far as the note does not.
type Chip struct {
	Text string
	Kind Kind
}

// SVG draws the chips. It fails without a title, and without a note or a group.
func (s *Chips) SVG() ([]byte, error) {
	var c canvas
	y := c.heading(s.Title, across)
	for _, l := range wrap(s.Note, small, false, across-2*margin) {
		c.text("n q", after, margin, y+small, l)
		y += line
	}
	for _, g := range s.Groups {
		y += 9
		c.text("n b", after, margin, y+small, g.Name)
		y = c.chips(g.Chips, y+line+3)
	}
	desc := s.Desc
	if desc == "" {
		desc = s.words()
	}
	return c.finish(s.Title, desc, across, y+margin)
}

// chips draws the chips of a group from y downwards and returns where they end.
func (c *canvas) chips(list []Chip, y float64) float64 {
	const high, inside, between = 24, 8, 6
	x := float64(margin)
	for _, chip := range list {
		wide := width(chip.Text, small, false) + 2*inside
		if x > margin && x+wide > across-margin {
			x, y = margin, y+high+between
		}
		c.area(box{x, y, wide, high}, chip.Kind)
		c.text(chip.Kind.class()+" n", around, x+wide/2, y+17, chip.Text)
		x += wide + between
	}
	return y + high
}

// words describes the chips, a sentence per group.
func (s *Chips) words() string {
	text := []string{s.Note}
	for _, g := range s.Groups {
		var chips []string
		for _, chip := range g.Chips {
			chips = append(chips, chip.Text)
		}
		text = append(text, g.Name+": "+strings.Join(chips, "; ")+".")
	}
	return strings.TrimSpace(strings.Join(text, " "))
}
