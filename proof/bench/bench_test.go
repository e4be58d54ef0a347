//go:build unix

package main

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// jvm is set where internal/java/build proof/bench/java was run, as make interop has it.
var jvm = flag.Bool("jvm", false, "measure beside libraries for Java too")

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	flag.Parse()
	// The race detector has a process wait for a second before it ends, and there are many of them.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestQuick takes every measure on Redis, and two of them on each of the other stores, once and for too short a time
// for meaningful figures, and checks that the result is complete.
func TestQuick(t *testing.T) {
	all := arenas
	if *jvm {
		all = allArenas()
	}
	for _, a := range all {
		only := "^(alone|pair|passing|waiting|holding|start)$"
		switch {
		case a == redisArena:
			only = ""
		case len(a.libraries) > 0:
			only = "^(alone|apart|hot|handover)$"
		}
		t.Run(a.key, func(t *testing.T) { testQuick(t, a, only) })
	}
}

func testQuick(t *testing.T, a *arena, only string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bench", "page.md")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	h := &servertest.Host{Program: "bench"}
	defer h.End()
	var said bytes.Buffer
	if err := mainErr(h, []string{"-store", a.key, "-quick", "-only", only, "-out", file}, &said, &said); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	taken := regexp.MustCompile(only)
	for _, target := range a.targets {
		if taken.MatchString(target.measure) && !strings.Contains(page, "| "+target.text+" | ") {
			t.Errorf("the page has no target %q", target.text)
		}
	}
	measures := (&bench{arena: a}).all()
	for _, target := range a.targets {
		for _, m := range measures {
			if m.key != target.measure {
				continue
			}
			for _, name := range append(target.peers, target.bare) {
				if name != "" && m.row(name) == nil {
					t.Errorf("target %q: %s has no row %q", target.text, m.key, name)
				}
			}
		}
	}
	for _, m := range measures {
		if !taken.MatchString(m.key) {
			continue
		}
		_, part, ok := strings.Cut(page, "## "+m.title+"\n")
		if !ok {
			t.Errorf("the page has no part %q", m.title)
		}
		part, _, _ = strings.Cut(part, "\n## ")
		for _, r := range m.rows {
			if !strings.Contains(part, "\n| "+r.name+" | ") {
				t.Errorf("%s: the page has no row %q", m.title, r.name)
			}
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, "–") && !strings.Contains(line, "(") {
			t.Errorf("a figure is missing: %s", line)
		}
	}
	for _, want := range slices.Concat([]string{a.name() + " ", "go1.", "load average"}, a.peers, a.libraries) {
		if !strings.Contains(page, strings.TrimPrefix(want, "github.com/")) {
			t.Errorf("the page does not tell %q", want)
		}
	}
}

// TestBounded keeps all measures on all stores within what somebody waits for.
func TestBounded(t *testing.T) {
	for _, c := range []struct {
		what   string
		arenas []*arena
		most   time.Duration
	}{{"make bench", arenas, 55 * time.Minute}, {"make bench-jvm", jvmArenas, 8 * time.Minute}} {
		var sum time.Duration
		for _, a := range c.arenas {
			b := &bench{
				arena: a, rounds: usualRounds, window: time.Duration(usualSeconds * float64(time.Second)), idle: usualIdle,
				settle: max(usualSettle, a.lag), only: regexp.MustCompile(""),
			}
			b.measures = b.all()
			each := b.estimate()
			t.Logf("%-13s %4.1f minutes", a.key, each.Minutes())
			sum += each
		}
		if sum > c.most {
			t.Errorf("%s takes %v, want at most %v", c.what, sum, c.most)
		}
	}
}

func TestOnly(t *testing.T) {
	h := &servertest.Host{Program: "bench"}
	defer h.End()
	var page, said bytes.Buffer
	if err := mainErr(h, []string{"-quick", "-only", "^alone$"}, &page, &said); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "## Over a link: uncontended, one goroutine") || strings.Contains(page.String(), "64 goroutines on 64") {
		t.Errorf("the page is not about the one measure that was asked for:\n%s", &page)
	}
}

func TestJain(t *testing.T) {
	for _, test := range []struct {
		counts []int64
		want   float64
	}{{[]int64{5, 5, 5, 5}, 1}, {[]int64{0, 8, 0, 0}, 0.25}, {[]int64{0, 0}, 0}} {
		if got := jain(test.counts); got != test.want {
			t.Errorf("jain(%v) = %v, want %v", test.counts, got, test.want)
		}
	}
}

// TestJudge checks the rounds: the ratio is of each round, against the best of that round.
func TestJudge(t *testing.T) {
	rounds := func(name string, values ...float64) *row {
		r := &row{name: name}
		for _, v := range values {
			r.samples = append(r.samples, sample{"x": v})
		}
		return r
	}
	b := &bench{measures: []*measure{{key: "m", rows: []*row{
		rounds(ours, 10, 20, 90), rounds("a", 5, 2, 9), rounds("b", 1, 4, 10), rounds("c", 20, 30, 100),
		rounds(bareList, 9, 19, 89), rounds(bareSetNX, 30, 40, 300),
	}}}}
	tests := []struct {
		name  string
		t     target
		rival string
		ratio float64
		word  string
	}{
		{"at least, met", target{against: rivals("m", "a", "b"), bound: 5}, "a", 5, "met"},
		{"at least, missed", target{against: rivals("m", "a", "b"), bound: 5.1}, "a", 5, "**missed**"},
		{"at most", target{against: rivals("m", "a", "b"), most: true, bound: 10}, "b", 10, "met"},
		{"below", target{against: rivals("m", "a", "b"), most: true, strict: true, bound: 10}, "b", 10, "**missed**"},
		{"fixed", target{fixed: 40, most: true, strict: true, bound: 1}, "", 0.5, "met"},
		{"near the limit", target{fixed: 10, most: true, bound: 1, bare: bareList, peers: []string{"c"}}, "", 2, "within 15 % of the bare limit"},
		{"near the limit, a peer is faster", target{fixed: 10, most: true, bound: 1, bare: bareList}, "", 2, "**missed**: a is faster"},
		{"near the limit from below", target{against: rivals("m", "a", "b"), bound: 6, bare: bareList, peers: []string{"a", "b"}}, "a", 5, "within 15 % of the bare limit"},
		{"the same, a peer is faster", target{against: rivals("m", "a", "b"), bound: 6, bare: bareList}, "a", 5, "**missed**: c is faster"},
		{"far from the limit", target{against: rivals("m", "a", "b"), bound: 6, bare: bareSetNX, peers: []string{"a", "b"}}, "a", 5, "**missed**"},
	}
	for _, test := range tests {
		test.t.measure, test.t.row, test.t.column = "m", ours, "x"
		v := b.judge(&test.t)
		if got := median(v.ratios); got != test.ratio || v.word() != test.word || v.rival != test.rival {
			t.Errorf("%s: ratio %v, %s, against %q; want %v, %s, %q", test.name, got, v.word(), v.rival, test.ratio, test.word, test.rival)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct {
		got, want string
	}{
		{grouped(1234567.8, 0), "1,234,568"}, {grouped(-1234.5, 1), "-1,234.5"}, {grouped(999, 0), "999"}, {grouped(math.NaN(), 0), "–"},
		{short(0.1234), "0.12"}, {short(1.234), "1.23"}, {short(12.34), "12.3"}, {short(1234.5), "1,234"}, {short(50), "50"},
		{quantity(5, "/s"), "5/s"}, {quantity(5, "B"), "5 B"}, {spread([]float64{2, 1, 4}), "2 (1–4)"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestCounts(t *testing.T) {
	before := counts{"get": 1, "evalsha": 1}
	after := counts{"get": 4, "evalsha": 3, "ping": 1}
	requests, commands := after.since(before, []string{"get"})
	if requests != 3 || commands != 6 {
		t.Errorf("%d requests and %d commands, want 3 and 6", requests, commands)
	}
}
