package repo

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRooms(t *testing.T) { report(t, rooms(load(t))) }

// roomsPage has the table of folders.
const roomsPage = "docs/explain/architecture.md"

// floors are the folders of which each folder in them has a place in the table.
var floors = []string{".", "cmd", "internal", "proof", "store"}

// maxEntries is how many entries the root may have.
const maxEntries = 65

var (
	roomLine = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	roomName = regexp.MustCompile("`([^`]*)`")
)

// rooms finds folders that the table of the architecture leaves out, and rows without a folder.
func rooms(files []*file) (problems []string) {
	page := named(files, roomsPage)
	if page == nil {
		return []string{roomsPage + " is not there"}
	}
	section, _, _ := strings.Cut(page.text, "\n## Layers")
	var listed []string
	for _, line := range roomLine.FindAllStringSubmatch(section, -1) {
		for _, name := range roomName.FindAllStringSubmatch(line[1], -1) {
			listed = append(listed, name[1])
		}
	}
	there, entries := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		first, _, _ := strings.Cut(f.path, "/")
		entries[first] = true
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			there[dir] = true
		}
	}
	for _, name := range listed {
		if name != "*.go" && !there[name] {
			problems = append(problems, fmt.Sprintf("%s: %s is not there", roomsPage, name))
		}
	}
	for dir := range there {
		placed := slices.ContainsFunc(listed, func(name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
		if slices.Contains(floors, path.Dir(dir)) && !strings.HasPrefix(dir, ".") && !placed {
			problems = append(problems, fmt.Sprintf("%s: %s has no place in the table of folders", roomsPage, dir))
		}
	}
	if len(entries) > maxEntries {
		problems = append(problems, fmt.Sprintf("the root has %d entries; the limit is %d", len(entries), maxEntries))
	}
	slices.Sort(problems)
	return problems
}

func TestRoomsCheck(t *testing.T) {
	table := "| `*.go` | x |\n| `driver`, `store/redis` | y |\n"
	for _, tt := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"whole", []string{"a.go", "driver/a.go", "driver/casqueue/a.go", "store/redis/a.go", ".ci/run"}, nil},
		{"left out", []string{"driver/a.go", "store/redis/a.go", "store/etcd/internal/a.go"},
			[]string{roomsPage + ": store/etcd has no place in the table of folders"}},
		{"not there", []string{"driver/a.go"}, []string{roomsPage + ": store/redis is not there"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := book(t, roomsPage, table+"| `docs` | z |\n\n## Layers\n")
			for _, name := range tt.files {
				files = append(files, &file{path: name})
			}
			if got := rooms(files); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
