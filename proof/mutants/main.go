// Command mutants checks that the explorer and the tests find known mistakes: each patch of proof/mutants/testdata makes
// one. It builds the explorer with that patch and walks until it finds a violation, or runs the test that the patch's head
// names.
//
//	go run ./proof/mutants [-some 10] [-for 60s] [-matrix | -write] [NAME...]
//
// Every patch must apply and compile. With -some, the commit's hash chooses this many patches; without, the command looks
// for all. It fails if it does not find one. The head of a patch describes the mistake, and then may have the lines
//
//	stands for: M1, defect 3
//	found by: contract ./store/etcd TestContract/LateLeave
//	found by: test ./internal/claims TestName/part of it
//
// A case of the contract belongs to package drivertest, or to guardtest for guards. It may be written for other mistakes; a
// test is written for this mistake.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	some  = flag.Int("some", 0, "how many are looked for; 0 means all")
	limit = flag.Duration("for", time.Minute, "how long one may take to be found")
	jobs  = flag.Int("jobs", min(2, runtime.NumCPU()), "how many are looked for at once")
	table = flag.Bool("matrix", false, "print what finds each mutant beside its own test, as rows of docs/evidence/matrix.md")
	save  = flag.Bool("write", false, "print these rows, and put them into docs/evidence/matrix.md")
)

func main() {
	flag.Parse()
	*table = *table || *save
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	patches  = "proof/mutants/testdata"
	explorer = "./proof/explore/cmd"
)

func run(names []string) error {
	top, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if err := os.Chdir(top); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(patches, "*.patch"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no mutants in %s: %w", patches, err)
	}
	sought, err := choose(files)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	patched := files
	if len(names) > 0 {
		files = slices.DeleteFunc(slices.Clone(files), func(file string) bool { return !slices.Contains(names, nameOf(file)) })
		sought = files
	}
	start := time.Now()
	failed, rows := all(top, dir, files, sought)
	if *save {
		if err := write(rows, patched); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not found, or broken: %s", strings.Join(failed, ", "))
	}
	fmt.Printf("%d mutants apply and compile, %d were looked for and found, in %.0f s\n", len(files), len(sought),
		time.Since(start).Seconds())
	return nil
}

func nameOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".patch") }

// all looks for the mutants, a few at once, prints the results in order, and returns the failed mutants, and the rows of the
// found ones.
func all(top, dir string, files, sought []string) (failed []string, rows map[string]string) {
	rows = map[string]string{}
	if !*table {
		fmt.Printf("%-32s %-17s %-50s %11s %7s  %s\n", "mutant", "stands for", "found by", "transitions", "seconds", "as")
	}
	type done struct {
		mutant
		finding
		by found
	}
	results := make([]chan done, len(files))
	room := make(chan struct{}, max(1, *jobs))
	for i := range results {
		results[i] = make(chan done, 1)
	}
	go func() {
		for i, file := range files {
			room <- struct{}{}
			go func() {
				m := mutant{name: nameOf(file), patch: filepath.Join(top, file), dir: filepath.Join(dir, nameOf(file))}
				var f finding
				var by found
				switch f.err = m.prepare(top); {
				case f.err != nil || !slices.Contains(sought, file):
				case *table:
					by = m.matrix()
				default:
					f = m.find()
				}
				<-room
				results[i] <- done{m, f, by}
			}()
		}
	}()
	for _, ch := range results {
		switch d := <-ch; {
		case d.err != nil:
			failed = append(failed, d.name)
			fmt.Printf("%-32s %-17s %v\n", d.name, d.numbers, d.err)
		case d.by != nil:
			row := d.by.row(&d.mutant)
			fmt.Println(row)
			if len(d.by) == 0 {
				failed = append(failed, d.name)
			} else {
				rows[d.name] = row
			}
		case d.at != "":
			fmt.Printf("%-32s %-17s %-50s %11s %7.1f  %s\n", d.name, d.numbers, d.at, d.transitions, d.seconds, d.as)
		}
	}
	return failed, rows
}

// choose returns the patches to look for.
func choose(files []string) ([]string, error) {
	if *some == 0 || *some >= len(files) {
		return files, nil
	}
	hash, err := output("git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(hash[:8], 16, 64)
	if err != nil {
		return nil, err
	}
	from := int(n % uint64(len(files)))
	return slices.Concat(files[from:], files[:from])[:*some], nil
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
