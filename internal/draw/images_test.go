package draw

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the pictures")

// images is where the pictures of the book are.
const images = "../../docs/images"

// A drawing makes a picture.
type drawing interface{ SVG() ([]byte, error) }

// book has the pictures of the book by the names of their files. Those of benchmarks are drawn from the pages.
var book = map[string]drawing{
	"capacity":        &capacity,
	"states":          &states,
	"failover":        &failover,
	"fence":           &fence,
	"lease":           &lease,
	"partition":       &partition,
	"queue":           &queue,
	"redlock-vote":    &vote,
	"turns":           &turns,
	"zookeeper-order": &order,
}

// golden compares a picture with its file, or writes it.
func golden(t *testing.T, file string, d drawing) {
	t.Helper()
	got, err := d.SVG()
	if err != nil {
		t.Fatal(err)
	}
	inspect(t, got)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is drawn now; look at it after go test ./internal/draw -update", file)
	}
}

func TestBook(t *testing.T) {
	for name, d := range book {
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join(images, name+".svg"), d) })
	}
}

// The name of a lane keeps away from the arrows above it, also in a font a fifth wider than ours.
func TestNamesOfLanesMissTheArrows(t *testing.T) {
	for picture, d := range book {
		line, ok := d.(*Timeline)
		if !ok {
			continue
		}
		c := chart{Timeline: line}
		for i, l := range line.Lanes {
			if i == 0 {
				continue
			}
			end := margin + 1.2*width(l.Name, small, true)
			for _, b := range c.incoming(i - 1) {
				if b.x < end {
					t.Errorf("%s: the name %q ends at %.0f, and an arrow is at %.0f", picture, l.Name, end, b.x+3)
				}
			}
		}
	}
}

// A page shows each picture, and no file is left over from a picture that is no longer drawn.
func TestBookShowsAll(t *testing.T) {
	var pages bytes.Buffer
	lists := []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"}
	for _, list := range lists {
		files, err := filepath.Glob(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			pages.Write(text)
			for _, bare := range silent(string(text)) {
				t.Errorf("%s: %s has no text for those who do not see it", f, bare)
			}
		}
	}
	files, err := filepath.Glob(images + "/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		if picture := strings.TrimSuffix(name, ".svg"); book[picture] == nil && chineseBook[picture] == nil {
			t.Errorf("nothing draws %s", f)
		}
		if !bytes.Contains(pages.Bytes(), []byte("images/"+name+")")) {
			t.Errorf("no page shows %s", f)
		}
	}
}

var shown = regexp.MustCompile(`!\[([^\]]*)\]\(([^)]*)\)`)

// silent returns the pictures of a page with at most one word for readers who do not see them.
func silent(page string) (files []string) {
	for _, m := range shown.FindAllStringSubmatch(page, -1) {
		if utf8.RuneCountInString(m[1]) < 12 {
			files = append(files, m[2])
		}
	}
	return files
}

func TestSilent(t *testing.T) {
	const page = "![](a.svg)\n![chart](b.svg)\n![web1 holds, web2 and web3 wait](c.svg)\n![web1 持有锁，web2 和 web3 排队](d.svg)"
	if got, want := silent(page), []string{"a.svg", "b.svg"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A parsed has the parts of a picture, read back from its bytes.
type parsed struct {
	ViewBox string `xml:"viewBox,attr"`
	Role    string `xml:"role,attr"`
	Labels  string `xml:"aria-labelledby,attr"`
	Title   struct {
		ID   string `xml:"id,attr"`
		Text string `xml:",chardata"`
	} `xml:"title"`
	Desc struct {
		ID   string `xml:"id,attr"`
		Text string `xml:",chardata"`
	} `xml:"desc"`
	Rects []struct {
		Class string  `xml:"class,attr"`
		X     float64 `xml:"x,attr"`
		Y     float64 `xml:"y,attr"`
		W     float64 `xml:"width,attr"`
		H     float64 `xml:"height,attr"`
	} `xml:"rect"`
	Texts []struct {
		Class  string  `xml:"class,attr"`
		Anchor string  `xml:"text-anchor,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Text   string  `xml:",chardata"`
	} `xml:"text"`
}

// inspect fails the test for what no picture may have.
func inspect(t *testing.T, svg []byte) {
	t.Helper()
	for _, problem := range problems(t, svg) {
		t.Error(problem)
	}
}

func problems(t *testing.T, svg []byte) (list []string) {
	t.Helper()
	var p parsed
	if err := xml.Unmarshal(svg, &p); err != nil {
		t.Fatalf("not well-formed: %v", err)
	}
	if p.Role != "img" || p.Title.Text == "" || p.Desc.Text == "" || p.Labels != p.Title.ID+" "+p.Desc.ID {
		list = append(list, "no text alternative")
	}
	view := strings.Fields(p.ViewBox)
	if len(view) != 4 || len(p.Rects) == 0 {
		t.Fatalf("view box %q has no background", p.ViewBox)
	}
	ground := p.Rects[0]
	if view[2] != number(ground.W+1) || view[3] != number(ground.H+1) {
		list = append(list, fmt.Sprintf("view box %q is not the background's", p.ViewBox))
	}
	if ground.W > across-1 {
		list = append(list, "the picture is too wide for a phone")
	}
	var seen []box
	for _, text := range p.Texts {
		at := side(text.Anchor)
		if at == "" {
			at = after
		}
		b := extent(text.Class, at, text.X, text.Y, text.Text)
		if b.x < 4 || b.y < 4 || b.x+b.w > ground.W-4 || b.y+b.h > ground.H-4 {
			list = append(list, text.Text+": out of the picture")
		}
		if slices.ContainsFunc(seen, b.meets) {
			list = append(list, text.Text+": runs into another text")
		}
		seen = append(seen, b)
		class, inside := strings.Fields(text.Class + " -")[0], false
		if !slices.ContainsFunc(everyKind(), func(k Kind) bool { return k.class() == class }) {
			continue // it stands on the background
		}
		for _, r := range p.Rects[1:] {
			inside = inside || r.Class != "r" && r.X <= b.x && r.Y <= b.y && r.X+r.W >= b.x+b.w && r.Y+r.H >= b.y+b.h
		}
		if !inside {
			list = append(list, text.Text+": out of its box")
		}
	}
	return list
}

func everyKind() (all []Kind) {
	for k := range kinds {
		all = append(all, k)
	}
	return all
}
