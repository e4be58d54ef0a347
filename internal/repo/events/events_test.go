package events

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	const a, b = `{"Action":"run","Package":"p","Test":"TestA"}`, `{"Action":"pass","Package":"p","Test":"TestA"}`
	broken := errors.New("broken")
	for _, tt := range []struct {
		name, text   string
		err          error
		taken, other []string
	}{
		{"nothing", "", nil, nil, nil},
		{"two", a + "\n" + b + "\n", nil, []string{"run TestA", "pass TestA"}, nil},
		{"the last is not ended", a + "\n" + b, nil, []string{"run TestA", "pass TestA"}, nil},
		{"a warning", "go: a warning\n" + b + "\n", nil, []string{"pass TestA"}, []string{"go: a warning\n"}},
		{"cut within one", a + "\n" + b[:20], nil, []string{"run TestA"}, []string{b[:20]}},
		{"cannot be read", a + "\n", broken, []string{"run TestA"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var taken, other []string
			r := iotest.OneByteReader(strings.NewReader(tt.text))
			if tt.err != nil {
				r = &failing{text: strings.NewReader(tt.text), err: tt.err}
			}
			err := Read(r, func(e *Event) { taken = append(taken, e.Action+" "+e.Test) },
				func(line []byte) { other = append(other, string(line)) })
			if !errors.Is(err, tt.err) || !slices.Equal(taken, tt.taken) || !slices.Equal(other, tt.other) {
				t.Errorf("took %q, others %q, %v; want %q, %q, %v", taken, other, err, tt.taken, tt.other, tt.err)
			}
		})
	}
}

// A failing reader fails after its text.
type failing struct {
	text *strings.Reader
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.text.Len() == 0 {
		return 0, f.err
	}
	return f.text.Read(p)
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		line                    string
		noise, breaks, detector bool
	}{
		{"=== RUN   TestA\n", true, false, false},
		{"FAIL\tp\t0.1s\n", true, false, false},
		{"PASS\n", true, false, false},
		{"FAIL: a\n", false, false, false},
		{"    a_test.go:7: panic: no\n", false, false, false},
		{"panic: loud\n", false, true, false},
		{"fatal error: all goroutines are asleep - deadlock!\n", false, true, false},
		{"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346\n", false, false, true},
		{"WARNING: DATA RACE\n", false, false, false},
	} {
		if n, b, d := Noise(tt.line), Breaks(tt.line), IsDetectors(tt.line); n != tt.noise || b != tt.breaks || d != tt.detector {
			t.Errorf("%q: noise %v, breaks %v, detector %v; want %v, %v, %v", tt.line, n, b, d, tt.noise, tt.breaks, tt.detector)
		}
	}
}
