//go:build unix

// Release gives all modules one version:
//
//	release [-dry] v0.2.0
//
// It works in a clone of HEAD. There it writes the version into every go.mod, into go.work and into the Python client's
// pyproject.toml, gives CHANGELOG.md a section, commits, and tags each module that others may require. Then it proves the tags: a program outside of the
// clone gets all modules from a proxy made of them, is built without a workspace or a replace line, and takes a lock;
// and go install gives a command that prints this version. Only then does the branch get the commit and the tags, and
// nothing is pushed. With -dry it gets neither.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// root is the path of the core, and the beginning of all others.
const root = "github.com/stilelock/stile"

func main() {
	if err := mainErr(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func mainErr(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	dry := flags.Bool("dry", false, "prove that it could be released, and leave the repository as it is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one version, as in make release VERSION=v0.2.0")
	}
	version := flags.Arg(0)
	if err := checkVersion(version); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer clear(tmp)
	return release(".", tmp, version, *dry, out)
}

// release releases the repository at dir by a clone in tmp.
func release(dir, tmp, version string, dry bool, out io.Writer) error {
	if !dry {
		if err := ready(dir); err != nil {
			return err
		}
	}
	clone := filepath.Join(tmp, "stile")
	if _, err := run(dir, nil, "git", "clone", "--quiet", "--local", ".", clone); err != nil {
		return err
	}
	if err := author(dir, clone); err != nil {
		return err
	}
	modules, err := published(clone)
	if err != nil {
		return err
	}
	tags, err := tag(clone, modules, version, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "tagged in a clone: %s\n", strings.Join(tags, " "))
	if err := prove(clone, tmp, modules, version, out); err != nil {
		return err
	}
	if dry {
		fmt.Fprintf(out, "%s can be released; nothing was changed\n", version)
		return nil
	}
	refs := []string{"fetch", "--quiet", "--no-tags", clone, "HEAD"}
	for _, t := range tags {
		refs = append(refs, "refs/tags/"+t+":refs/tags/"+t)
	}
	if _, err := run(dir, nil, "git", refs...); err != nil {
		return err
	}
	if _, err := run(dir, nil, "git", "merge", "--quiet", "--ff-only", tags[0]); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is released here; git push --follow-tags publishes it\n", version)
	return nil
}

var wellFormed = regexp.MustCompile(`^v([01]\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*))(?:-(alpha|beta|rc)\.(0|[1-9]\d*))?$`)

// checkVersion refuses what Go would not take for a version of modules without a major version in their path, and what Python
// cannot write.
func checkVersion(version string) error {
	if !wellFormed.MatchString(version) {
		return fmt.Errorf("%q is no version for these modules: want one like v0.2.0, v1.0.3 or v0.2.0-rc.1, with alpha, beta or rc", version)
	}
	return nil
}

// python is the Python client's description, from the root.
const python = "clients/python/pyproject.toml"

var projectVersion = regexp.MustCompile(`(?m)^version = ".*"$`)

// project writes the version into the text of a pyproject.toml, in Python's canonical form: PEP 440.
func project(text, version string) (string, error) {
	if n := len(projectVersion.FindAllString(text, -1)); n != 1 {
		return "", fmt.Errorf("%s has %d lines with a version; want one", python, n)
	}
	is := wellFormed.ReplaceAllString(version, "$1$2$3")
	is = strings.NewReplacer("alpha", "a", "beta", "b").Replace(is)
	return projectVersion.ReplaceAllLiteralString(text, `version = "`+is+`"`), nil
}

// ready refuses a repository with uncommitted changes.
func ready(dir string) error {
	changes, err := run(dir, nil, "git", "status", "--porcelain")
	if err == nil && len(changes) > 0 {
		return fmt.Errorf("there are changes that are not committed:\n%s", changes)
	}
	return err
}

// author lets the clone commit as the repository does, and as nobody in particular where it has no author.
func author(dir, clone string) error {
	for key, without := range map[string]string{"user.name": "release", "user.email": "release@localhost"} {
		value, err := run(dir, nil, "git", "config", key)
		if err != nil || len(value) == 0 {
			value = []byte(without)
		}
		if _, err := run(clone, nil, "git", "config", key, strings.TrimSpace(string(value))); err != nil {
			return err
		}
	}
	return nil
}

// A module is one that programs may require.
type module struct {
	Path    string
	dir     string // from the root
	adapter bool   // it has a workspace of its own
}

// tagged is the name of the module's tag.
func (m module) tagged(version string) string {
	if m.dir == "" {
		return version
	}
	return m.dir + "/" + version
}

// A workspace is a go.work, as go work edit -json prints it.
type workspace struct {
	Use     []struct{ DiskPath string }
	Replace []struct{ Old struct{ Path string } }
}

func readWorkspace(dir string) (work workspace, err error) {
	text, err := run(dir, nil, "go", "work", "edit", "-json")
	if err != nil {
		return work, err
	}
	return work, json.Unmarshal(text, &work)
}

// published lists the modules that go.work replaces, the modules that adapters/go.work uses, and the command, which nobody
// requires: the core, the stores, the adapters and the command.
func published(clone string) ([]module, error) {
	work, err := readWorkspace(clone)
	if err != nil {
		return nil, err
	}
	adapters, err := readWorkspace(filepath.Join(clone, "adapters"))
	if err != nil {
		return nil, err
	}
	var modules []module
	for _, r := range work.Replace {
		modules = append(modules, module{Path: r.Old.Path, dir: strings.TrimPrefix(strings.TrimPrefix(r.Old.Path, root), "/")})
	}
	if len(modules) == 0 || modules[0].Path != root {
		return nil, fmt.Errorf("go.work replaces %v; want the core first", modules)
	}
	for _, use := range adapters.Use {
		dir := path.Join("adapters", use.DiskPath)
		modules = append(modules, module{Path: root + "/" + dir, dir: dir, adapter: true})
	}
	return append(modules, module{Path: root + "/cmd/stile", dir: "cmd/stile"}), nil
}

// tag commits the version and tags it, for each module.
func tag(clone string, modules []module, version string, now time.Time) (tags []string, err error) {
	files, err := run(clone, nil, "git", "ls-files", "go.mod", "**/go.mod", "go.work", "**/go.work")
	if err != nil {
		return nil, err
	}
	changes := map[string]func(string) (string, error){
		"CHANGELOG.md": func(text string) (string, error) { return section(text, version, now), nil },
		python:         func(text string) (string, error) { return project(text, version) },
	}
	for name := range strings.FieldsSeq(string(files)) {
		changes[name] = func(text string) (string, error) { return require(text, modules, version), nil }
	}
	for name, change := range changes {
		if err := rewrite(filepath.Join(clone, name), change); err != nil {
			return nil, err
		}
	}
	if _, err := run(clone, nil, "git", "commit", "--quiet", "--all", "-m", "Release "+version); err != nil {
		return nil, err
	}
	for _, m := range modules {
		t := m.tagged(version)
		if _, err := run(clone, nil, "git", "tag", "--annotate", "-m", m.Path+" "+version, t); err != nil {
			return nil, err
		}
		tags = append(tags, t)
	}
	return tags, nil
}

// require writes this version into the lines of a go.mod or go.work that name a module.
func require(text string, modules []module, version string) string {
	for _, m := range modules {
		line := regexp.MustCompile(`(?m)^(\s*(?:require )?` + regexp.QuoteMeta(m.Path) + `) v\S+`)
		text = line.ReplaceAllString(text, "${1} "+version)
	}
	return text
}

// section gives the unreleased changes a heading of this version.
func section(text, version string, now time.Time) string {
	const unreleased = "## [Unreleased]\n"
	return strings.Replace(text, unreleased, unreleased+"\n## ["+version[1:]+"] - "+now.UTC().Format(time.DateOnly)+"\n", 1)
}

func rewrite(name string, change func(string) (string, error)) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed, err := change(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(changed), 0o644)
}

// clear removes a folder with a module cache, whose folders are read-only. What cannot be removed is left in the folder for
// temporary files.
func clear(dir string) {
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o700) //nolint:gosec // only to remove it
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// run runs a command in a folder and returns what it printed.
func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}
