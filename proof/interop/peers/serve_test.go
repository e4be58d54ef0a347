//go:build unix

package main

import (
	"strings"
	"testing"

	_ "github.com/stilelock/stile/store/memory"
)

func TestServe(t *testing.T) {
	var out strings.Builder
	in := strings.NewReader("lock a\nunlock\ntry a\nnonsense\nlock\nexit\nlock b\n")
	if err := serve(t.Context(), "stile", "memory://serve", in, &out); err != nil {
		t.Fatal(err)
	}
	want := []string{"ready", "held ", "free", "held ", `error unknown request "nonsense"`, "error stile: lock"}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("it says %q, want %q", got, want)
	}
	for i, line := range got {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %q, want %q", i, line, want[i])
		}
	}
	if err := serve(t.Context(), "no such kind", "", strings.NewReader(""), &out); err == nil {
		t.Error("a kind that does not exist serves")
	}
}
