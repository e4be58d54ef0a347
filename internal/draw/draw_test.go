package draw

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// samples have in them what the pictures of the book do not: long texts, marks of XML, empty and lonely parts.
var samples = map[string]drawing{
	"empty": &Diagram{Title: "Nothing", Desc: "An empty picture."},
	"marks": &Diagram{Title: `<a> & "b"`, Desc: "it's <b>", Rows: []Row{{Label: "x < y", Boxes: []Box{{ID: "a", Text: "a<b&c\n\"d\"", Note: "<n>"}}}}},
	"wrapped": &Diagram{
		Title: "A title that is longer than a line of the picture is, so it is broken where a word ends", Desc: "Long texts.",
		Rows: []Row{
			{Label: "a row whose boxes have to be broken", Boxes: []Box{
				{ID: "a", Text: "short", Kind: Held},
				{ID: "b", Text: "a text that is long enough to need several lines in its box", Kind: Waiting},
				{ID: "c", Text: "another one that does not fit beside the others either", Kind: Failed},
			}},
			{Boxes: []Box{{ID: "d", Text: "分布式锁 holds", Kind: Store, Note: "a note"}, {ID: "e", Text: "alone", Kind: Paused}}},
		},
		Arrows: []Arrow{
			{From: "a", To: "b", Text: "to"}, {From: "b", To: "a", Text: "back", Kind: Held},
			{From: "a", To: "d", Text: "one text", Kind: Held}, {From: "b", To: "d", Text: "a second text", Kind: Waiting},
			{From: "d", To: "c", Text: "a third, upwards", Kind: Failed}, {From: "c", To: "e", Kind: Store},
		},
	},
}

func init() {
	grants := Timeline{
		Title: "Many grants, faults and refused writes", Desc: "A run.", From: 0.5, To: 60.5, Unit: "s",
		Moments: []Moment{{10, "a fault begins"}, {20, "and ends"}, {21, "at once another"}, {60, "end"}, {70, "is not shown"}},
		Messages: []Message{
			{0, 1, 10, 12, Held, "down"}, {1, 0, 30, 33, Failed, "up"}, {0, 2, 50, 50, Plain, "past a lane"}, {2, 2, 5, 5, Plain, ""},
		},
	}
	for lane := range 4 {
		l := Lane{Name: fmt.Sprintf("process %d", lane)}
		for n := range 30 {
			from := float64(n*4+lane) / 2
			l.Spans = append(l.Spans, Span{From: from, To: from + 0.5, Kind: Kind(n) % kinds})
		}
		for n, text := range []string{"killed", "a request that was refused because its token was too low", "late", "stopped for a while", ""} {
			l.Points = append(l.Points, Point{At: float64(2 + n*n + 9*lane), Kind: Kind(n), Text: text})
		}
		grants.Lanes = append(grants.Lanes, l)
	}
	grants.Lanes = append(grants.Lanes, Lane{Spans: []Span{{-5, 90, Held, "a lane without a name"}, {20, 21, Failed, "no room here"}}})
	samples["grants"] = &grants
	samples["instant"] = &Timeline{Title: "Short", Desc: "An empty lane.", From: 0, To: 0.003, Unit: "ms", Lanes: []Lane{{}}}
	samples["bars"] = &Bars{Title: "Figures", Panels: []Panel{
		{Heading: "hand-overs per second; more is better", Bars: []Bar{
			{"stile", 555244, "555,244", Held}, {"a library whose name is so long that it has to be broken into lines, one below the other", 122, "122", Waiting},
			{"nothing", 0, "0", Waiting}, {"unknown", math.NaN(), "–", Waiting}, {"endless", math.Inf(1), "∞", Failed},
		}},
		{Heading: "no bars"},
	}}
}

func TestSamples(t *testing.T) {
	for name, d := range samples {
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join("testdata", name+".svg"), d) })
	}
}

func TestSameBytes(t *testing.T) {
	for name, d := range samples {
		first, err := d.SVG()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if again, _ := d.SVG(); !bytes.Equal(again, first) {
				t.Fatalf("%s is drawn otherwise when it is drawn again", name)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	two := []Row{{Boxes: []Box{{ID: "a"}, {ID: "b"}, {ID: "c"}}}, {Boxes: []Box{{ID: "d"}}}, {Boxes: []Box{{ID: "e"}}}}
	arrow := func(from, to string) *Diagram {
		return &Diagram{Title: "t", Desc: "d", Rows: two, Arrows: []Arrow{{From: from, To: to}}}
	}
	for _, tt := range []struct {
		name string
		drawing
		want string
	}{
		{"no title", &Diagram{Desc: "d"}, errTitle.Error()},
		{"no description", &Diagram{Title: "t"}, errTitle.Error()},
		{"twice", &Diagram{Title: "t", Desc: "d", Rows: []Row{{Boxes: []Box{{ID: "a"}, {ID: "a"}}}}}, `two boxes have the id "a"`},
		{"from nowhere", arrow("x", "a"), `an arrow begins at "x", and no box has this id`},
		{"to nowhere", arrow("a", ""), `an arrow ends at "", and no box has this id`},
		{"past a box", arrow("a", "c"), `the arrow from "a" to "c" passes other boxes`},
		{"no time", &Timeline{Title: "t", Desc: "d", From: 1, To: 1}, "time goes from 1 to 1"},
		{"no number", &Timeline{Title: "t", Desc: "d", To: math.NaN()}, "time goes from 0 to NaN"},
		{"no lane", &Timeline{Title: "t", Desc: "d", To: 1, Lanes: []Lane{{}}, Messages: []Message{{To: 1}}},
			"a message goes from lane 0 to lane 1, and there are 1"},
		{"no bars", &Bars{Title: "t"}, errTitle.Error()},
		{"no chips", &Chips{Title: "t"}, errTitle.Error()},
		{"past a row", arrow("a", "e"), `the arrow from "a" to "e" passes other boxes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.SVG(); err == nil || err.Error() != tt.want {
				t.Errorf("got %v and %d bytes, want the error %s", err, len(got), tt.want)
			}
		})
	}
}

// The checks of pictures find what they are for.
func TestInspection(t *testing.T) {
	const good = `<svg viewBox="0 0 460 100" role="img" aria-labelledby="t d"><title id="t">t</title><desc id="d">d</desc>
		<rect class="g" x="0.5" y="0.5" width="459" height="99"/><rect class="r" x="10" y="10" width="400" height="80"/>
		<rect class="h" x="20" y="50" width="50" height="30"/>
		<text x="20" y="30">label</text><text class="h b" text-anchor="middle" x="45" y="70">one</text></svg>`
	for _, tt := range []struct{ name, old, now, want string }{
		{"nothing", "", "", ""},
		{"out of the picture", `x="20" y="30"`, `x="440" y="30"`, "label: out of the picture"},
		{"below the picture", `x="20" y="30"`, `x="20" y="99"`, "label: out of the picture"},
		{"into another", `x="20" y="30"`, `x="20" y="64"`, "one: runs into another text"},
		{"out of its box", ">one<", ">one and more<", "one and more: out of its box"},
		{"no description", ">d<", "><", "no text alternative"},
		{"too wide", `0 460 100`, `0 470 100`, "view box \"0 0 470 100\" is not the background's"},
		{"no role", `role="img"`, "", "no text alternative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := problems(t, []byte(strings.Replace(good, tt.old, tt.now, 1)))
			if tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// luminance returns the relative luminance of WCAG 2.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

func TestContrast(t *testing.T) {
	for name, s := range map[string]*scheme{"light": &light, "dark": &dark} {
		type pair struct {
			what, a, b string
			least      float64
		}
		pairs := []pair{{"text", s.text, s.ground, 4.5}, {"quiet text", s.quiet, s.ground, 4.5}}
		for k, c := range s.tints {
			pairs = append(pairs, pair{fmt.Sprint("text of kind ", k), c.text, c.area, 4.5},
				pair{fmt.Sprint("edge of kind ", k), c.edge, s.ground, 3}, pair{fmt.Sprint("edge on area of kind ", k), c.edge, c.area, 3})
		}
		for _, p := range pairs {
			a, b := luminance(t, p.a), luminance(t, p.b)
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); got < p.least {
				t.Errorf("%s, %s: %s on %s has a contrast of %.2f, want %.1f", name, p.what, p.a, p.b, got, p.least)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text string
		most float64
		want []string
	}{
		{"", 100, []string{""}},
		{"one", 1, []string{"one"}},
		{"one two", 1000, []string{"one two"}},
		{"one two three", width("one two", body, false), []string{"one two", "three"}},
		{"one\ntwo three", 1000, []string{"one", "two three"}},
	} {
		if got := wrap(tt.text, body, false, tt.most); !slices.Equal(got, tt.want) {
			t.Errorf("wrap(%q, %v) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}
