package draw

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// benchPages are the pages of benchmarks, and benchCharts has what is drawn of them.
const (
	benchPages  = "../../docs/evidence/bench/*.md"
	benchCharts = "../../docs/evidence/bench/charts"
)

// The charts of the pages are those of the figures in the pages.
func TestBenchCharts(t *testing.T) {
	pages, err := filepath.Glob(benchPages)
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	var all []string
	for _, page := range pages {
		if filepath.Base(page) == "README.md" { // the index, which has no figures of its own
			continue
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := WriteCharts(page, string(text)); err != nil {
					t.Fatal(err)
				}
				if text, err = os.ReadFile(page); err != nil {
					t.Fatal(err)
				}
			}
			want, charts, err := Charts(name, string(text))
			if err != nil {
				t.Fatal(err)
			}
			for file, svg := range charts {
				if !strings.Contains(string(svg), `class="hb"`) {
					t.Errorf("%s does not show which bars are stile's: their rows have other names", file)
				}
			}
			if want != string(text) {
				t.Errorf("%s does not show its charts; run go test ./internal/draw -update", page)
			}
			if len(charts) < 3 {
				t.Errorf("%s has %d charts; want more", page, len(charts))
			}
			for file, svg := range charts {
				all = append(all, file)
				inspect(t, svg)
				if got, err := os.ReadFile(filepath.Join(benchCharts, file)); err != nil || !bytes.Equal(got, svg) {
					t.Errorf("%s is not what the figures of %s are, %v; run go test ./internal/draw -update", file, page, err)
				}
			}
		})
	}
	files, err := filepath.Glob(benchCharts + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(all, filepath.Base(f)) {
			t.Errorf("no page has the chart %s", f)
		}
	}
}

const benchPage = `# Benchmarks: A & B

## Targets

| target | stile |
| --- | ---: |
| text | 1 |

## Hot, 1,000 names

About.

|  | ops/s | p50 µs | p99 µs |
| --- | ---: | ---: | ---: |
| stile | 1,000 | 3 | 1.5 |
| other | 0 | 0 | 0 |

## Not drawn

|  | samples |
| --- | ---: |
| stile | 3 |
`

func TestCharts(t *testing.T) {
	text, charts, err := Charts("ab", benchPage)
	if err != nil {
		t.Fatal(err)
	}
	const shown = "![The table below as bars: lock and unlock, times per second (more is better); time, 99th percentile, µs (less is better).]" +
		"(charts/ab-hot-1000-names.svg)\n\n"
	if want := strings.Replace(benchPage, "|  | ops/s", shown+"|  | ops/s", 1); text != want {
		t.Errorf("got the page\n%s\nwant\n%s", text, want)
	}
	svg := string(charts["ab-hot-1000-names.svg"])
	if len(charts) != 1 || !strings.Contains(svg, ">Hot, 1,000 names (A &amp; B)<") || !strings.Contains(svg, "other none in the window") {
		t.Errorf("got %d charts, and %s", len(charts), svg)
	}
	again, _, err := Charts("ab", text)
	if err != nil || again != text {
		t.Errorf("a page that has its charts becomes another: %v\n%s", err, again)
	}
	for page, want := range map[string]string{
		"# Other": "ab has no heading that begins with # Benchmarks",
		benchPage + "\n## Hot, 1,000 names\n\n|  | ops/s |\n| --- | ---: |\n| a | 1 |\n": `ab has two tables below "Hot, 1,000 names"`,
	} {
		if _, _, err := Charts("ab", page); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWriteCharts(t *testing.T) {
	dir := t.TempDir()
	file, pictures := filepath.Join(dir, "bench", "ab.md"), filepath.Join(dir, "bench", "charts")
	for _, d := range []string{filepath.Dir(file), pictures} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := "![Bars.](charts/ab-old.svg)\n\n"
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"ab-old.svg", "ab-c-of-another-page.svg", "abc-other.svg"} {
		if err := os.WriteFile(filepath.Join(pictures, old), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteCharts(file, benchPage); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(pictures + "/*")
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"ab-c-of-another-page.svg", "ab-hot-1000-names.svg", "abc-other.svg"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("got %q, %v, want %q", left, err, want)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "(charts/ab-hot-1000-names.svg)") {
		t.Errorf("got %v and the page\n%s", err, text)
	}
}
