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

// The sums of the long runs under faults are made of what make soak has written: go test ./internal/repo -update.

const (
	soakLog  = "docs/soak.log"
	soakPage = "docs/explain/chaos.md"

	soakLeast = 30 * time.Minute // on each store
)

// A soakSum adds up the runs on one store.
type soakSum struct {
	runs, faults, holds, excused, found int
	under                               time.Duration
}

func (s soakSum) row(name string) string {
	return fmt.Sprintf("| %s | %d | %.0f | %d | %d | %d | %d |\n", name, s.runs, s.under.Minutes(), s.faults, s.holds, s.excused, s.found)
}

func TestSoakPage(t *testing.T) {
	stores := map[string]soakSum{}
	var all soakSum
	for line := range strings.Lines(string(read(t, soakLog))) {
		store, s, err := parseSoak(line)
		if err != nil {
			t.Fatalf("%s: %v", soakLog, err)
		}
		stores[store], all = stores[store].and(s), all.and(s)
	}
	var table strings.Builder
	table.WriteString("| store | runs | minutes | faults | holds | findings of times in which claims may have been lost | runs with other findings |\n")
	table.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, store := range slices.Sorted(maps.Keys(stores)) {
		if under := stores[store].under; under < soakLeast {
			t.Errorf("%s was run for %v; want %v or more", store, under, soakLeast)
		}
		table.WriteString(stores[store].row("`" + store + "`"))
	}
	table.WriteString(all.row("all"))

	page := string(read(t, soakPage))
	const begin, end = "<!-- soak: go test ./internal/repo -run TestSoakPage -update -->\n", "<!-- end of soak -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the sums", soakPage)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(filepath.Join(root(t), soakPage), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != want {
		t.Errorf("%s is not what %s says: go test ./internal/repo -update", soakPage, soakLog)
	}
}

func (s soakSum) and(o soakSum) soakSum {
	return soakSum{s.runs + o.runs, s.faults + o.faults, s.holds + o.holds, s.excused + o.excused, s.found + o.found, s.under + o.under}
}

var soakLine = regexp.MustCompile(`^(\S+) seed=\d+ for=(\S+) pairs=\S+ workers=\d+ faults=(\d+) holds=(\d+)(?: checked=\d+)? .*excused=(\d+) findings=(\S+)\n$`)

// parseSoak reads the line of one run.
func parseSoak(line string) (store string, s soakSum, err error) {
	m := soakLine.FindStringSubmatch(line)
	if m == nil {
		return "", s, fmt.Errorf("no line of a run: %q", line)
	}
	if s.under, err = time.ParseDuration(m[2]); err != nil {
		return "", s, err
	}
	s.runs = 1
	for i, to := range []*int{&s.faults, &s.holds, &s.excused} {
		if *to, err = strconv.Atoi(m[3+i]); err != nil {
			return "", s, err
		}
	}
	if m[6] != "none" {
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
