package repo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The sums of the runs under faults are made of what make soak and make alarms have written: go test ./internal/repo
// -update.

const (
	chaosPage = "docs/explain/chaos.md"  // the conclusions, with the sum of all stores
	sumsPage  = "docs/evidence/chaos.md" // the sums for each store
)

// A soakSum adds up the runs on one store.
type soakSum struct {
	runs, faults, holds, excused, found int
	under                               time.Duration
	seeds                               []string
}

func (s soakSum) row(name string) string {
	return fmt.Sprintf("| %s | %d | %.0f | %d | %d | %d | %d |\n", name, s.runs, s.under.Minutes(), s.faults, s.holds, s.excused, s.found)
}

// TestSoakPage wants half an hour or more of each store.
func TestSoakPage(t *testing.T) {
	for store, s := range sumRuns(t, "docs/evidence/soak.log", "soak") {
		if s.under < 30*time.Minute {
			t.Errorf("%s was run for %v; want half an hour or more", store, s.under)
		}
	}
}

// TestAlarmsPage wants 200 runs, each of its own seed, and no finding.
func TestAlarmsPage(t *testing.T) {
	seeds, runs := map[string]bool{}, 0
	for store, s := range sumRuns(t, "docs/evidence/alarms.log", "alarms") {
		for _, seed := range s.seeds {
			if seeds[seed] {
				t.Errorf("seed %s was run twice", seed)
			}
			seeds[seed] = true
		}
		if runs += s.runs; s.found > 0 {
			t.Errorf("%s: %d runs have findings, of which the page is to tell", store, s.found)
		}
	}
	if runs < 200 {
		t.Errorf("there were %d runs; want 200 or more", runs)
	}
}

// sumRuns adds up what a log has of each store, and holds the pages between marks of that name to the sums.
func sumRuns(t *testing.T, log, mark string) map[string]soakSum {
	t.Helper()
	stores := map[string]soakSum{}
	var all soakSum
	for line := range strings.Lines(string(read(t, log))) {
		store, s, err := parseSoak(line)
		if err != nil {
			t.Fatalf("%s: %v", log, err)
		}
		stores[store], all = stores[store].and(s), all.and(s)
	}
	var table strings.Builder
	table.WriteString("| store | runs | minutes | faults | holds | findings of times in which claims may have been lost | runs with other findings |\n")
	table.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, store := range slices.Sorted(maps.Keys(stores)) {
		table.WriteString(stores[store].row("`" + store + "`"))
	}
	table.WriteString(all.row("all"))

	between(t, sumsPage, mark, table.String())
	between(t, chaosPage, mark+" sum", fmt.Sprintf("`make %s` made %d runs, %.0f minutes in all, with %s faults and %s holds: %d findings were excused, and\n"+
		"%d runs had other findings.\n", mark, all.runs, all.under.Minutes(), thousands(all.faults), thousands(all.holds), all.excused, all.found))
	return stores
}

// thousands writes a count with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// between holds what a page has between the marks of a name to text, or writes it there.
func between(t *testing.T, name, mark, text string) {
	t.Helper()
	page := string(read(t, name))
	begin, end := "<!-- "+mark+": go test ./internal/repo -update -->\n", "<!-- end of "+mark+" -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for %s", name, mark)
	}
	want := before + begin + text + end + after
	if *update {
		if err := os.WriteFile(filepath.Join(root(t), name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != want {
		t.Errorf("%s is not what the runs wrote: go test ./internal/repo -update", name)
	}
}

func (s soakSum) and(o soakSum) soakSum {
	return soakSum{
		s.runs + o.runs, s.faults + o.faults, s.holds + o.holds, s.excused + o.excused, s.found + o.found, s.under + o.under,
		slices.Concat(s.seeds, o.seeds),
	}
}

var soakLine = regexp.MustCompile(`^(\S+) seed=(\d+) for=(\S+) pairs=\S+ workers=\d+ faults=(\d+) holds=(\d+)(?: checked=\d+)? .*excused=(\d+) findings=(\S+)\n$`)

// parseSoak reads the line of one run.
func parseSoak(line string) (store string, s soakSum, err error) {
	m := soakLine.FindStringSubmatch(line)
	if m == nil {
		return "", s, fmt.Errorf("no line of a run: %q", line)
	}
	if s.under, err = time.ParseDuration(m[3]); err != nil {
		return "", s, err
	}
	s.runs, s.seeds = 1, []string{m[2]}
	for i, to := range []*int{&s.faults, &s.holds, &s.excused} {
		if *to, err = strconv.Atoi(m[4+i]); err != nil {
			return "", s, err
		}
	}
	if m[7] != "none" {
		s.found = 1
	}
	return m[1], s, nil
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
