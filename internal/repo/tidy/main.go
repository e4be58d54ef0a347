// Tidy does for every module of the two workspaces, the root's and the adapters', what go mod tidy does for one. The
// modules require each other in versions that need not be published, which go mod tidy cannot find; so it runs on a
// copy that says where they stand.
//
// It prints the files that are not tidy and exits with status 1, or with -w writes them.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	write := flag.Bool("w", false, "write the files instead of naming them")
	flag.Parse()
	var stale []string
	for _, root := range []string{".", "adapters"} {
		more, err := tidyAll(root, *write)
		if err != nil {
			fmt.Fprintln(os.Stderr, "tidy:", err)
			os.Exit(1)
		}
		stale = append(stale, more...)
	}
	for _, name := range stale {
		if *write {
			fmt.Println("tidy: wrote", name)
		} else {
			fmt.Fprintf(os.Stderr, "tidy: %s is not tidy; make tidy writes it\n", name)
		}
	}
	if len(stale) > 0 && !*write {
		os.Exit(1)
	}
}

// A module is one of the workspace, or one that it replaces.
type module struct {
	Path, Dir string
	version   string // in which the others require it, from go.work; empty if go.work has none
	uses      bool   // it is one of the workspace, and is tidied
}

// tidyAll tidies the modules of the workspace at root and returns the files that were not tidy.
func tidyAll(root string, write bool) (stale []string, err error) {
	modules, err := workspace(root)
	if err != nil {
		return nil, err
	}
	// What one module requires follows from those that it requires, which may come after it.
	for range modules {
		more, err := pass(modules, write)
		if err != nil {
			return nil, err
		}
		stale = append(stale, more...)
		if len(more) == 0 || !write {
			break
		}
	}
	slices.Sort(stale)
	return slices.Compact(stale), nil
}

// pass tidies each module once.
func pass(modules []module, write bool) (stale []string, err error) {
	for _, m := range modules {
		if !m.uses {
			continue
		}
		tidied, err := tidy(m, modules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		for _, base := range []string{"go.mod", "go.sum"} {
			name := filepath.Join(m.Dir, base)
			have, err := read(name)
			if err != nil {
				return nil, err
			}
			if bytes.Equal(have, tidied[base]) {
				continue
			}
			stale = append(stale, name)
			if write {
				if err := replace(name, tidied[base]); err != nil {
					return nil, err
				}
			}
		}
	}
	return stale, nil
}

// workspace lists the modules of the workspace at root, and the others that it says the place of.
func workspace(root string) ([]module, error) {
	out, err := run(root, nil, "go", "list", "-m", "-json=Path,Dir")
	if err != nil {
		return nil, err
	}
	text, err := run(root, nil, "go", "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var work struct {
		Replace []struct {
			Old struct{ Path, Version string }
			New struct{ Path string }
		}
	}
	if err := json.Unmarshal(text, &work); err != nil {
		return nil, err
	}
	var modules []module
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		m := module{uses: true}
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	for _, r := range work.Replace {
		i := slices.IndexFunc(modules, func(m module) bool { return m.Path == r.Old.Path })
		if i < 0 {
			dir, err := filepath.Abs(filepath.Join(root, r.New.Path))
			if err != nil {
				return nil, err
			}
			i, modules = len(modules), append(modules, module{Path: r.Old.Path, Dir: dir})
		}
		modules[i].version = r.Old.Version
	}
	return modules, nil
}

// unversioned is go mod tidy's version of a module that it found by a replace line and nobody required yet.
const unversioned = " v0.0.0-00010101000000-000000000000"

// tidy returns what go.mod and go.sum of a module should be; nil for a file that should not be there.
func tidy(m module, modules []module) (map[string][]byte, error) {
	tmp, err := os.MkdirTemp("", "tidy")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	for _, base := range []string{"go.mod", "go.sum"} {
		have, err := read(filepath.Join(m.Dir, base))
		if err != nil {
			return nil, err
		}
		if err := replace(filepath.Join(tmp, base), have); err != nil {
			return nil, err
		}
	}
	mod := filepath.Join(tmp, "go.mod")
	add, drop := []string{"mod", "edit"}, []string{"mod", "edit"}
	for _, o := range modules {
		if o.Path != m.Path {
			add = append(add, "-replace="+o.Path+"="+o.Dir)
			drop = append(drop, "-dropreplace="+o.Path)
		}
	}
	alone := []string{"GOWORK=off"}
	for _, args := range [][]string{append(add, mod), {"mod", "tidy", "-modfile=" + mod}, append(drop, mod)} {
		if _, err := run(m.Dir, alone, "go", args...); err != nil {
			return nil, err
		}
	}
	tidied := map[string][]byte{}
	for _, base := range []string{"go.mod", "go.sum"} {
		if tidied[base], err = read(filepath.Join(tmp, base)); err != nil {
			return nil, err
		}
	}
	for _, o := range modules {
		if o.version != "" {
			tidied["go.mod"] = bytes.ReplaceAll(tidied["go.mod"], []byte(o.Path+unversioned), []byte(o.Path+" "+o.version))
		}
	}
	return tidied, nil
}

// read returns a file's content; nil if the file does not exist or is empty.
func read(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || len(text) == 0 {
		return nil, nil
	}
	return text, err
}

// replace writes a file's content; nil means that the file should not exist.
func replace(name string, text []byte) error {
	if text != nil {
		return os.WriteFile(name, text, 0o644)
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// run runs a command in a folder and returns its output; the error holds what it said.
func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
