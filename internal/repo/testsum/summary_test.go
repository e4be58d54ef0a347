package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSummary runs go test on small packages. What it prints is not a contract of the go command, so no copy of it is
// kept here.
func TestSummary(t *testing.T) {
	const head = "package x\n\nimport \"testing\"\n\n"
	for _, tt := range []struct {
		name, text string
		want       summary
		shows      []string
		hides      []string
	}{
		{"pass", head + "func TestA(t *testing.T) { t.Log(\"quiet\") }\nfunc TestB(t *testing.T) {}",
			summary{2, 0}, []string{"ok    example.test/x"}, []string{"quiet", "==="}},
		{"subtests",
			head + "func TestA(t *testing.T) { t.Run(\"a\", TestB); t.Run(\"b\", TestB) }\nfunc TestB(t *testing.T) {}",
			summary{3, 0}, nil, nil},
		{"fail", head + "func TestA(t *testing.T) { t.Error(\"loud\") }\nfunc TestB(t *testing.T) { t.Log(\"quiet\") }",
			summary{1, 1}, []string{"FAIL  example.test/x", "loud"}, []string{"quiet"}},
		{"failed subtest", head + "func TestA(t *testing.T) { " +
			"t.Run(\"a\", func(t *testing.T) { t.Error(\"loud\") }); t.Run(\"b\", TestB) }\n" +
			"func TestB(t *testing.T) {}",
			summary{2, 1}, []string{"loud"}, nil},
		{"parent alone",
			head + "func TestA(t *testing.T) { t.Run(\"a\", TestB); t.Error(\"loud\") }\nfunc TestB(t *testing.T) {}",
			summary{2, 1}, []string{"loud"}, nil},
		{"skip", head + "func TestA(t *testing.T) { t.Sk" + "ip(\"no server\") }\nfunc TestB(t *testing.T) {}",
			summary{1, 1}, []string{"TestA skipped itself", "no server"}, nil},
		{"panic", head + "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { panic(\"loud\") }",
			summary{1, 1}, []string{"panic: loud"}, nil},
		{"exit", head + "import \"os\"\n\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { os.Exit(3) }",
			summary{1, 1}, []string{"TestB did not end"}, nil},
		{"exit after the tests",
			head + "import \"os\"\n\nfunc TestA(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(3) }",
			summary{1, 1}, []string{"failed outside its tests"}, nil},
		{"not built", head + "func TestA(t *testing.T) { loud() }",
			summary{0, 1}, []string{"undefined: loud"}, nil},
		{"not parsed", "package", summary{0, 1}, []string{"x_test.go"}, nil},
		{"no tests", "package x\n", summary{0, 0}, []string{"none  example.test/x"}, nil},
		{"fuzz seed", head + "func FuzzA(f *testing.F) { f.Add(1); f.Add(2); " +
			"f.Fuzz(func(t *testing.T, n int) { if n == 2 { t.Fatal(\"loud\") } }) }",
			summary{1, 1}, []string{"loud"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOWORK", "off")
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module example.test/x\n\ngo 1.26.0\n",
				"x_test.go": tt.text} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out strings.Builder
			got, err := test([]string{"-vet=off", "-count=1", "./..."}, &out)
			if err != nil {
				t.Error(err)
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			for _, text := range tt.shows {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not shown", text)
				}
			}
			for _, text := range tt.hides {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is shown", text)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

func TestSummaryError(t *testing.T) {
	got, err := test([]string{"-p=many"}, new(strings.Builder))
	if err == nil || got.failed != 0 {
		t.Errorf("got %v, %v; want the error of go test", got, err)
	}
}

func TestReadCut(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
go: a warning
{"Action":"output","Package":"p","Test":"TestB","Output":"loud\n"}
`
	var out strings.Builder
	got, _, err := read(strings.NewReader(events), true, &out)
	if want := (summary{1, 1}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"TestB did not end", "loud", "go: a warning"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not shown in\n%s", text, out.String())
		}
	}
}

// What the runtime says of a process that breaks is shown although the test that spoke last has passed.
func TestReadBroken(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out after 3s\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"\tTestB (3s)\n"}
{"Action":"fail","Package":"p"}
`
	var out strings.Builder
	got, _, err := read(strings.NewReader(events), true, &out)
	if want := (summary{1, 1}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if !strings.Contains(out.String(), "panic: test timed out after 3s\n\tTestB (3s)\n") {
		t.Errorf("the panic is not shown in\n%s", out.String())
	}
}

// Tests in which nothing but the race detector broke run again, and no others do. The detector is only imitated: how it
// breaks differs from run to run.
func TestDetectorBreaks(t *testing.T) {
	const (
		head = `package x

import ("fmt"; "os"; "testing")

func first() bool { _, err := os.Stat("again"); os.WriteFile("again", nil, 0o644); return err != nil }
`
		breaks = `{ fmt.Fprintln(os.Stderr, "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346 \"...\""); os.Exit(66) }`
	)
	for _, tt := range []struct {
		name, text string
		want       summary
		again      int
	}{
		{"once", "func TestA(*testing.T) {}; func TestB(*testing.T) { if first() " + breaks + " }", summary{3, 0}, 1},
		{"always", "func TestA(*testing.T) {}; func TestB(*testing.T) " + breaks, summary{2, 1}, tries - 1},
		{"after a failed test", "func TestA(t *testing.T) { if first() { t.Error() } }; func TestB(*testing.T) " + breaks,
			summary{1, 2}, 0},
		{"outside tests", "func TestA(*testing.T) {}; func TestMain(m *testing.M) { if m.Run(); first() " + breaks + " }",
			summary{2, 0}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOWORK", "off")
			t.Chdir(t.TempDir())
			for name, text := range map[string]string{"go.mod": "module example.test\n\ngo 1.26.0\n",
				"x/x_test.go": head + tt.text, "y/y_test.go": "package y\n\nimport \"testing\"\n\nfunc TestC(*testing.T) {}\n"} {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			got, err := test([]string{"-vet=off", "-count=1", "./..."}, &out)
			if again := strings.Count(out.String(), "again example.test/x "); err != nil || got != tt.want || again != tt.again {
				t.Errorf("got %v, again %d times, %v; want %v, %d times\n%s", got, again, err, tt.want, tt.again, &out)
			}
		})
	}
}
