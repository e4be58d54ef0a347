package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

// stores are the build tags' names of the stores that can be left out.
var stores = []string{"consul", "etcd", "mysql", "postgres", "redis", "sqlite", "zookeeper"}

// A program on a server is copied into images and loaded by each call of a script. The Makefile strips it as this does.
func TestSize(t *testing.T) {
	t.Parallel()
	var others []string
	for _, s := range stores {
		if s != "redis" {
			others = append(others, "no_"+s)
		}
	}
	for _, tt := range []struct {
		what, tags string
		page       *regexp.Regexp // what install.md says
	}{
		{"all stores", "", regexp.MustCompile(`a command of ([\d.]+) MB with all stores`)},
		{"Redis", strings.Join(others, ","), regexp.MustCompile(`With Redis only, the command takes ([\d.]+) MB`)},
		{"no store", "no_redis," + strings.Join(others, ","), regexp.MustCompile(`Without any of these stores it takes ([\d.]+) MB`)},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "stile")
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "grpcnotrace,"+tt.tags,
				"-o", file, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			said := tt.page.FindStringSubmatch(documents(t)["../../docs/start/install.md"])
			if said == nil {
				t.Fatalf("install.md has no %v", tt.page)
			}
			mb := float64(info.Size()) / 1e6
			if want, _ := strconv.ParseFloat(said[1], 64); mb < 0.9*want || mb > 1.1*want {
				t.Errorf("with %s it has %.1f MB, and install.md says %s: see make sizes", tt.what, mb, said[1])
			}
			if tt.tags == "" {
				return
			}
			out, err := exec.CommandContext(t.Context(), file, "--url", "etcd://127.0.0.1", "ls").CombinedOutput()
			if want := "stile: etcd://127.0.0.1/: this stile was built without its store (build tag no_etcd)\n"; err == nil || string(out) != want {
				t.Errorf("a store that was left out: %q, %v; want %q", out, err, want)
			}
		})
	}
}

// The core knows, for an error that helps, the package of each scheme.
func TestSchemesHavePackages(t *testing.T) {
	_, err := driver.Open(context.Background(), "bogus://")
	if err == nil {
		t.Fatal("bogus:// is a store")
	}
	_, known, _ := strings.Cut(err.Error(), "known: ")
	for scheme := range strings.SplitSeq(known, ", ") {
		if (&driver.MissingError{Scheme: scheme}).Package() == "" {
			t.Errorf("driver's list of packages lacks the scheme %s", scheme)
		}
	}
}
