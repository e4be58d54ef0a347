//go:build unix

package main

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/repo/events"
)

// lines are events in short: "run TestA", "out TestA text", "fail TestA"; "-" is no test.
func lines(text string) *one {
	o := newOne()
	for line := range strings.Lines(text) {
		action, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, said, spoke := strings.Cut(rest, " ")
		e := &events.Event{Action: action, Package: "p", Test: strings.TrimPrefix(name, "-")}
		if spoke {
			e.Action, e.Output = "output", said+"\n"
		}
		o.take(e)
	}
	return o
}

// TestMain is also a process that keeps a processor busy.
func TestMain(m *testing.M) {
	flag.Parse()
	if *spin > 0 {
		busy(*spin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The load ends when it is stopped, long before its bound.
func TestLoadStops(t *testing.T) {
	stop, err := load(2, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		stop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-awake.For(time.Minute):
		t.Error("the load goes on")
	}
}

// It ends by itself after its bound, though nobody stops it.
func TestLoadIsBounded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-spin", "10ms")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

func TestTable(t *testing.T) {
	type result struct {
		events string
		passed bool
	}
	const (
		good     = "run TestA\nout TestA === RUN   TestA\npass TestA\nrun TestB\npass TestB\npass -\n"
		bad      = "run TestA\nout TestA     a_test.go:7: loud\nout TestA     a_test.go:8: more\nout TestA --- FAIL: TestA (0.00s)\nfail TestA\nrun TestB\npass TestB\nfail -\n"
		detector = "run TestA\nout TestA ThreadSanitizer: CHECK failed: x\n"
	)
	for _, tt := range []struct {
		name    string
		results []result
		want    string // below the first line
	}{
		{"none", []result{{good, true}, {good, true}}, "none failed\n"},
		{"one of three", []result{{good, true}, {bad, false}, {good, true}},
			"failures/runs  test   said first\n1/3            TestA  a_test.go:7: loud\n"},
		{"most often first", []result{{bad, false}, {bad, false}, {"run TestC\nout TestC c\nfail TestC\n", false}},
			"failures/runs  test   said first\n2/2            TestA  a_test.go:7: loud\n1/1            TestC  c\n"},
		{"subtest in place of its parent", []result{{"run TestA\nrun TestA/x\nout TestA/x loud\nfail TestA/x\nfail TestA\n", false}},
			"failures/runs  test     said first\n1/1            TestA/x  loud\n"},
		{"parent that fails alone", []result{{"run TestA\nrun TestA/x\npass TestA/x\nout TestA loud\nfail TestA\n", false}},
			"failures/runs  test   said first\n1/1            TestA  loud\n"},
		{"skip", []result{{"run TestA\nout TestA no server\nskip TestA\n", true}},
			"failures/runs  test   said first\n1/1            TestA  skipped itself: no server\n"},
		{"timeout", []result{{"run TestA\nrun TestB\npass TestA\nout TestA panic: test timed out\nout TestA goroutine 1\n", false}},
			"failures/runs  test   said first\n1/1            TestB  did not end: panic: test timed out\n"},
		{"outside", []result{{good, false}, {good, true}},
			"failures/runs  test               said first\n1/2            outside the tests  \n"},
		{"the detector", []result{{detector, false}, {good, true}},
			"in 1 of them the race detector itself broke, see go.dev/issue/78156\nnone failed\n"},
		{"the detector after a failure", []result{{bad + detector, false}},
			"in 1 of them the race detector itself broke, see go.dev/issue/78156\n" +
				"failures/runs  test   said first\n1/1            TestA  a_test.go:7: loud\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab := &table{path: "p", rows: map[string]*row{}}
			for _, r := range tt.results {
				tab.add(lines(r.events), r.passed)
			}
			_, got, _ := strings.Cut(tab.String(), "\n")
			if got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestFile(t *testing.T) {
	for path, want := range map[string]string{
		"github.com/stilelock/stile/store/redis": "stile-store-redis.txt",
		"github.com/stilelock/stile":             "stile.txt",
	} {
		if got := (&pkg{path: path}).file(); got != want {
			t.Errorf("the table of %s is in %s, want %s", path, got, want)
		}
	}
}
