package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The workspace of the tests needs no network: its modules require each other and nothing else.
var files = map[string]string{
	"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./a\n\t./b\n)\n\n" +
		"replace (\n\texample.test/m v0.1.0 => ./\n\texample.test/m/a v0.1.0 => ./a\n)\n",
	"go.mod":   "module example.test/m\n\ngo 1.26.0\n",
	"m.go":     "package m\n",
	"a/go.mod": "module example.test/m/a\n\ngo 1.26.0\n\nrequire example.test/m v0.1.0\n",
	"a/a.go":   "package a\n\nimport _ \"example.test/m\"\n",
	"b/go.mod": "module example.test/m/b\n\ngo 1.26.0\n\n" +
		"require example.test/m/a v0.1.0\n\nrequire example.test/m v0.1.0 // indirect\n",
	"b/b.go": "package b\n\nimport _ \"example.test/m/a\"\n",
}

func TestTidy(t *testing.T) {
	for _, tt := range []struct {
		name       string
		path, text string   // one file that differs
		want       []string // the files that are not tidy
	}{
		{name: "tidy"},
		{name: "requires too much", path: "a/a.go", text: "package a\n", want: []string{"a/go.mod", "b/go.mod"}},
		{name: "requires too little", path: "a/go.mod", text: "module example.test/m/a\n\ngo 1.26.0\n",
			want: []string{"a/go.mod"}},
		{name: "direct instead of indirect", path: "b/go.mod", want: []string{"b/go.mod"},
			text: "module example.test/m/b\n\ngo 1.26.0\n\n" +
				"require (\n\texample.test/m v0.1.0\n\texample.test/m/a v0.1.0\n)\n"},
		{name: "sum of nothing", path: "a/go.sum", want: []string{"a/go.sum"},
			text: "example.test/x v0.1.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOPROXY", "off")
			t.Setenv("GOWORK", "")
			t.Setenv("GOFLAGS", "")
			root := t.TempDir()
			for name, text := range files {
				put(t, root, name, text)
			}
			if tt.path != "" {
				put(t, root, tt.path, tt.text)
			}
			var want []string
			for _, name := range tt.want {
				want = append(want, filepath.Join(root, name))
			}
			for _, write := range []bool{false, true} {
				got, err := tidyAll(root, write)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("write %v: got %q, want %q", write, got, want)
				}
			}
			if got, err := tidyAll(root, false); err != nil || got != nil {
				t.Errorf("after writing: got %q, %v; want nothing left", got, err)
			}
			for _, name := range []string{"a/go.mod", "b/go.mod"} {
				text, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), "replace") || tt.path == "" && string(text) != files[name] {
					t.Errorf("%s is now\n%s", name, text)
				}
			}
		})
	}
}

func TestTidyError(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "")
	root := t.TempDir()
	for name, text := range files {
		put(t, root, name, text)
	}
	put(t, root, "b/b.go", "package b\n\nimport _ \"example.test/none\"\n")
	_, err := tidyAll(root, true)
	if err == nil || !strings.Contains(err.Error(), "example.test/none") {
		t.Errorf("got %v, want an error that names what was not found", err)
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
