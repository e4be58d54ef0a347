//go:build unix

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The table has a failed play, and a list below repeats it; the plays of a store keep their order.
func TestPlays(t *testing.T) {
	of := func(who string, err error) play {
		return play{"a", who, func() (string, error) { return "seen of " + who, err }}
	}
	list := playAll([]*store{
		{name: "S", plays: []play{of("b", nil), of("c", errors.New("lost interop-0123abcd"))}},
		{name: "T"},
		{name: "U", plays: []play{of("d", nil)}},
	})
	var out strings.Builder
	wrong := playTable(&out, list)
	if want := []string{"| a | c | **WRONG**: lost NAME |"}; !slices.Equal(wrong, want) {
		t.Errorf("wrong are %q, want %q", wrong, want)
	}
	lines := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "<summary>") && !strings.HasPrefix(line, "| a ")
	})
	want := []string{
		"<summary>S, 2 rows</summary>", "| a | b | seen of b |", "| a | c | **WRONG**: lost NAME |",
		"<summary>U, 1 rows</summary>", "| a | d | seen of d |",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the table has %q, want %q", lines, want)
	}
}
