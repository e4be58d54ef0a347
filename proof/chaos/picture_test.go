//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/stilelock/stile/driver"
)

// TestPictures has a history of two names, one of them in no order: the picture shows that one, with its holders and the
// fault.
func TestPictures(t *testing.T) {
	const w = driver.All
	wrong, right := []*grant{back(w, 41, 0, 1, 8, 9), back(w, 42, 0, 3, 5, 6)}, back(w, 43, 0, 1, 2, 3)
	for i, g := range append(wrong, right) {
		g.Worker, g.Name = i+7, "chaos/mutex"
	}
	right.Name = "chaos/readers"
	o := &outcome{plan: plan{store: "redis", seed: 7}, fences: true, hits: []hit{{"server 0 is killed", span{2, 4}}}}
	o.order(append(wrong, right), map[string]int64{"chaos/mutex": w, "chaos/readers": w}, nil)
	text, err := o.save(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	paths, err := o.pictures(text)
	if want := strings.TrimSuffix(text, ".txt") + "-chaos-mutex.html"; err != nil || !slices.Equal(paths, []string{want}) {
		t.Fatalf("the pictures are %q (%v); want %q", paths, err, want)
	}
	page, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hold 0 of worker 7: all of the name, token 41", "end of hold 1 of worker 8", "token 41. Largest token: 41", "server 0 is killed",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%s has no %q", filepath.Base(paths[0]), want)
		}
	}

	o = &outcome{wrong: []string{"worker 1 does not end"}}
	o.order([]*grant{right}, map[string]int64{"chaos/readers": w}, nil)
	if paths, err := o.pictures(text); err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], "-chaos-readers.html") {
		t.Errorf("the pictures of a run that failed otherwise are %q (%v); want one of each name", paths, err)
	}
	if _, err := o.pictures(t.TempDir() + "/none/a.txt"); err == nil {
		t.Error("a picture that cannot be written is no error")
	}
}

// TestPacked checks that packed needs few rows, and bounds the operations that never end.
func TestPacked(t *testing.T) {
	got := packed([]porcupine.Operation{{Call: 5, Return: 6}, {Call: 1, Return: 3}, {Call: 2, Return: forever}, {Call: 4, Return: 4}})
	want := []porcupine.Operation{
		{ClientId: 0, Call: 1, Return: 3}, {ClientId: 1, Call: 2, Return: 7}, {ClientId: 0, Call: 4, Return: 4}, {ClientId: 0, Call: 5, Return: 6},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
