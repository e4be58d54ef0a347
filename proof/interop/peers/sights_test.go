//go:build unix

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSurprising(t *testing.T) {
	saw := func(expected fate, wrong bool, err error) sight {
		return sight{play: play{who: "w", fate: expected}, wrong: wrong, err: err}
	}
	for _, tt := range []struct {
		sight sight
		want  bool
	}{
		{saw(passes, false, nil), false},
		{saw(passes, true, nil), true},
		{saw(fails, true, nil), false},
		{saw(fails, false, nil), true},
		{saw(mayFail, true, nil), false},
		{saw(mayFail, false, errors.New("no server")), true},
	} {
		var out strings.Builder
		rows := flawTable(&out, []sight{tt.sight})
		if got := len(rows) == 1; got != tt.want {
			t.Errorf("a surprise: %v, want %v:\n%s", got, tt.want, &out)
		}
		if tt.want && !strings.Contains(out.String(), "\n"+rows[0]+"\n") {
			t.Errorf("the row %q is not in the table:\n%s", rows[0], &out)
		}
	}
}

// A play of another library that surprises is played three times at most. One with stile is played once, unless something
// else failed.
func TestSee(t *testing.T) {
	outside, inside := around(errors.New("no server")), errors.New("lost interop-0123abcd")
	type outcome struct {
		wrong bool
		err   error
	}
	right, wrong := outcome{}, outcome{wrong: true}
	const thrice = "sight 3; played 3 times, since before that: sight 1; sight 2"
	for _, tt := range []struct {
		who      string
		fate     fate
		outcomes []outcome
		want     string
	}{
		{"lib", fails, []outcome{wrong}, "sight 1 | **wrong** |"},
		{"lib", fails, []outcome{right, wrong}, "sight 2; played 2 times, since before that: sight 1 | **wrong** |"},
		{"lib", fails, []outcome{right, right, wrong}, thrice + " | **wrong** |"},
		{"lib", fails, []outcome{right, right, right}, thrice + " | right, and that is a surprise |"},
		{"lib", passes, []outcome{{err: inside}, right}, "sight 2; played 2 times, since before that: lost NAME | right |"},
		{"lib", mayFail, []outcome{right}, "sight 1 | right |"},
		{"stile", passes, []outcome{right}, "sight 1 | right |"},
		{"stile", passes, []outcome{wrong}, "sight 1 | **wrong**, and that is a surprise |"},
		{"lib, then stile", passes, []outcome{wrong}, "sight 1 | **wrong**, and that is a surprise |"},
		{"lib, then stile", passes, []outcome{{err: inside}}, "lost NAME | right, and that is a surprise |"},
		{"stile", passes, []outcome{{err: outside}, right}, "sight 2; played 2 times, since before that: no server | right |"},
		{
			"stile", passes, []outcome{{err: fmt.Errorf("the holder: %w", outside)}, wrong},
			"sight 2; played 2 times, since before that: the holder: no server | **wrong**, and that is a surprise |",
		},
	} {
		played := 0
		s := see(flaw{number: 7, what: "what"}, play{tt.who, tt.fate, func() (string, bool, error) {
			o := tt.outcomes[played]
			played++
			return fmt.Sprint("sight ", played), o.wrong, o.err
		}})
		if got, want := s.row(), "| 7 | what | "+tt.who+" | "+tt.want; got != want {
			t.Errorf("the row is %q, want %q", got, want)
		}
		if played != len(tt.outcomes) {
			t.Errorf("%s: it was played %d times, want %d", tt.who, played, len(tt.outcomes))
		}
	}
}

func TestPlayAll(t *testing.T) {
	var order []string
	of := func(who string) play {
		return play{who, passes, func() (string, bool, error) { order = append(order, who); return "", false, nil }}
	}
	list := playAll([]flaw{{number: 1, plays: []play{of("a"), of("b")}}, {number: 2, plays: []play{of("c")}}})
	if want := []string{"a", "b", "c"}; !slices.Equal(order, want) || len(list) != 3 || list[2].number != 2 {
		t.Errorf("played %q, seen %v", order, list)
	}
}
