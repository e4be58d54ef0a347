//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"v0.2.0": true, "v1.0.3": true, "v0.2.0-rc.1": true, "v0.2.0-alpha.0": true,
		"": false, "0.2.0": false, "v2.0.0": false, "v0.2": false, "v0.02.0": false, "v0.2.0+x": false, "v0.2.0\n": false, "main": false,
		"v0.2.0-rc": false, "v0.2.0-mine.1": false, "v0.2.0-rc.01": false,
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

// The Python client gets the modules' version as Python writes it, and nothing else of its description changes.
func TestProject(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../../..", python))
	if err != nil {
		t.Fatal(err)
	}
	rest := projectVersion.ReplaceAllString(string(text), "")
	for version, want := range map[string]string{
		"v0.2.0": "0.2.0", "v1.10.3": "1.10.3", "v0.2.0-rc.1": "0.2.0rc1", "v0.2.0-alpha.0": "0.2.0a0", "v0.2.0-beta.12": "0.2.0b12",
	} {
		got, err := project(string(text), version)
		if err != nil || !strings.Contains(got, "\nname = \"stilelock\"\nversion = \""+want+"\"\n") || projectVersion.ReplaceAllString(got, "") != rest {
			t.Errorf("%s: %v\n%s\nwant the version %s, and the rest as before", version, err, got, want)
		}
	}
	for _, text := range []string{"[project]\n", "version = \"1\"\nversion = \"2\"\n"} {
		if _, err := project(text, "v0.2.0"); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// The commit of a tag has the version in each file.
func TestTag(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module x\n\nrequire " + root + " v0.1.0\n", "CHANGELOG.md": "## [Unreleased]\n", python: "[project]\nversion = \"0.1.0\"\n",
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"config", "user.name", "x"}, {"config", "user.email", "x@localhost"}} {
		if _, err := run(dir, nil, "git", args...); err != nil {
			t.Fatal(err)
		}
	}
	tags, err := tag(dir, []module{{Path: root}}, "v0.2.0", time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC))
	if err != nil || len(tags) != 1 {
		t.Fatal(tags, err)
	}
	for name := range files {
		if text, err := run(dir, nil, "git", "show", tags[0]+":"+name); err != nil || !strings.Contains(string(text), "0.2.0") {
			t.Errorf("%s of the tag: %v\n%s\nwant the version in it", name, err, text)
		}
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
