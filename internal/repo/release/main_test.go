//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"v0.2.0": true, "v1.0.3": true, "v0.2.0-rc.1": true,
		"": false, "0.2.0": false, "v2.0.0": false, "v0.2": false, "v0.02.0": false, "v0.2.0+x": false, "v0.2.0\n": false, "main": false,
	} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v; want it taken: %v", version, err, ok)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"v0.2.0", "v0.3.0"}, {"two"}} {
		if err := mainErr(args, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestRequire(t *testing.T) {
	modules := []module{{Path: root}, {Path: root + "/redis", dir: "redis"}}
	got := require("require "+root+" v0.1.0\n\t"+root+"/redis v0.1.0 => ./store/redis\n\t"+root+"/redisx v0.1.0\n"+
		"\tgithub.com/redis/rueidis v1.0.79\nmodule "+root+"/redis\n", modules, "v0.2.0")
	want := "require " + root + " v0.2.0\n\t" + root + "/redis v0.2.0 => ./store/redis\n\t" + root + "/redisx v0.1.0\n" +
		"\tgithub.com/redis/rueidis v1.0.79\nmodule " + root + "/redis\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSection(t *testing.T) {
	got := section("# Changelog\n\n## [Unreleased]\n\n### Added\n", "v0.2.0", time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC))
	if want := "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-02\n\n### Added\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A repository with changes is not released, since they would not be in it.
func TestReady(t *testing.T) {
	dir := t.TempDir()
	if _, err := run(dir, nil, "git", "init", "--quiet"); err != nil {
		t.Fatal(err)
	}
	if err := ready(dir); err != nil {
		t.Errorf("an empty repository: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ready(dir); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("with a new file: %v; want an error that names it", err)
	}
}
