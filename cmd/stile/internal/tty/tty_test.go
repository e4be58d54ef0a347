package tty

import (
	"fmt"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	var b strings.Builder
	width := 10
	l := &Line{out: &b, width: func() int { return width }}
	draw := func(text string) {
		l.Draw(func(cells int) string { return text[:min(cells, len(text))] })
	}
	draw("waiting 1s")
	draw("waiting 1s") // nothing has changed
	fmt.Fprintln(l, "warning")
	width = 4 // the window has become narrower
	draw("waiting 2s")
	l.Erase()
	l.Erase()
	fmt.Fprintln(l, "done")
	width = 0 // nothing can be drawn
	draw("waiting 3s")
	want := "\rwaiting 1s\x1b[K\r" + "\r\x1b[Kwarning\nwaiting 1s\r" + "\rwait\x1b[K\r" + "\r\x1b[K" + "done\n"
	if got := b.String(); got != want {
		t.Errorf("the terminal got %q; want %q", got, want)
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		told     int
		variable string
		want     int
	}{
		{100, "", 100}, {100, "60", 60}, {60, "200", 60}, {0, "", 80}, {0, "60", 60}, {0, "x", 80}, {100, "-1", 100}, {100, "0", 100},
		{100, "99999999999999999999", 100},
	} {
		if got := fit(tt.told, tt.variable, 80); got != tt.want {
			t.Errorf("the terminal tells %d, the variable %q: %d; want %d", tt.told, tt.variable, got, tt.want)
		}
	}
}
