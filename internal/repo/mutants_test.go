package repo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page of mistakes that are put back has a row for each patch, says how each was found, and counts right.
func TestMutantsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/evidence/matrix.md")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob("../../proof/mutants/testdata/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	var want []string
	for _, patch := range patches {
		want = append(want, strings.TrimSuffix(filepath.Base(patch), ".patch"))
	}
	own := map[string]bool{} // by mistake: found by its own test only
	columns := []string{"exploration", "seeds", "contract", "own test"}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|(.*)\\|$").FindAllSubmatch(page, -1) {
		cells := strings.Split(string(row[2]), "|")
		if len(cells) != 5 || strings.TrimSpace(strings.Join(cells[1:], "")) == "" {
			t.Errorf("row %s: %d cells, or nothing that found it", row[1], len(cells))
			continue
		}
		own[string(row[1])] = strings.TrimSpace(strings.Join(cells[1:4], "")) == ""
		column := columnOf(t, string(row[1]))
		i := 1 + slices.Index(columns, column)
		// What else has found a mistake spares its own test.
		if strings.TrimSpace(cells[i]) == "" && (column != "own test" || own[string(row[1])]) {
			t.Errorf("row %s: the patch's head says that it is found by what is in column %q, which is empty; "+
				"go run ./proof/mutants -write %s", row[1], column, row[1])
		}
	}
	if got := slices.Sorted(maps.Keys(own)); !slices.Equal(got, want) {
		t.Errorf("the page has rows of\n%v\nwant those of the patches:\n%v", got, want)
	}
	alone := 0
	for _, only := range own {
		if only {
			alone++
		}
	}
	sum := fmt.Sprintf("Of %d mistakes %d are found by something that was not written for them, and %d by their own test only.",
		len(want), len(want)-alone, alone)
	if !strings.Contains(string(page), sum) {
		t.Errorf("the page does not say: %s", sum)
	}
}

var (
	firstWay = regexp.MustCompile(`(?m)^found by: (\S+) (.*)$`)
	drawn    = regexp.MustCompile(`^\S+ (TestSimulation|TestStorm|TestFairWeather|TestFoulWeather|TestTokensRiseWhereGrantsExclude)$`)
)

// columnOf is where the page has what a patch's head names first: the walk, if the head names nothing.
func columnOf(t *testing.T, name string) string {
	t.Helper()
	patch, err := os.ReadFile("../../proof/mutants/testdata/" + name + ".patch")
	if err != nil {
		t.Errorf("the page has a mistake without a patch: %v", err)
		return "own test"
	}
	way := firstWay.FindSubmatch(patch)
	switch {
	case way == nil:
		return "exploration"
	case string(way[1]) == "test" && drawn.Match(way[2]):
		return "seeds"
	}
	return map[string]string{"contract": "contract", "test": "own test"}[string(way[1])]
}

// Each mistake can be put back into the code as it is, which make mutants and CI find out later, too.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	patches, err := filepath.Glob("../../proof/mutants/testdata/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	for _, patch := range patches {
		run(t, nil, "git", "-c", "safe.directory=*", "apply", "--check", filepath.Join("internal/repo", patch))
	}
}
