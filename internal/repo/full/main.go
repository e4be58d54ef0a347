// Full makes all that is made before a release, in parts:
//
//	full [-for 55m] [PART...]
//
// A part that has passed on this commit, in a tree without changes, is noted below bin/full, and left out the next time.
// Failed parts come last. After -for no other part begins. At the end it prints a table of all parts; the status is 0 if
// every part of this run has passed. The output of a part is in a file beside its note.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/repo/notes"
)

func main() {
	limit := flag.Duration("for", 55*time.Minute, "after how long no other part begins")
	flag.Parse()
	ok, err := run(flag.Args(), *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "full:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(named []string, limit time.Duration) (ok bool, err error) {
	all, err := list(".")
	if err != nil {
		return false, err
	}
	f, err := notes.Open("bin/full")
	if err != nil {
		return false, err
	}
	if !f.Clean && len(named) == 0 {
		return false, fmt.Errorf("what passes is noted for a commit: commit or undo the changes, or name a part: PART=%s",
			all[0].name)
	}
	states := map[string]state{}
	for _, p := range all {
		states[p.name] = parse(f.Read(p.name))
	}
	todo, err := next(all, named, states)
	if err != nil {
		return false, err
	}
	ok = true
	start := time.Now()
	for i, p := range todo {
		if i > 0 && time.Since(start) >= limit {
			break
		}
		s, err := makePart(f, p)
		if err != nil {
			return false, err
		}
		states[p.name] = s
		ok = ok && s.result == passed
	}
	fmt.Printf("\ncommit %s\n%s", f.Commit[:12], table(all, states))
	return ok, nil
}

// makePart makes a part and takes note of what became of it.
func makePart(f *notes.Folder, p part) (state, error) {
	fmt.Printf("== %s: %s\n", p.name, strings.Join(p.command, " "))
	log := filepath.Join(f.Dir, p.name+".log")
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return state{}, err
	}
	out, err := os.Create(log)
	if err != nil {
		return state{}, err
	}
	defer out.Close()
	start := time.Now()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	s := state{result: passed}
	if err := cmd.Run(); err != nil {
		s.result = failed
		fmt.Fprintln(out, err)
		fmt.Printf("%s: %v; the end of %s:\n%s", p.name, err, log, tail(log, 30))
	}
	s.seconds = int(time.Since(start).Seconds())
	fmt.Printf("== %s: %s, %d s\n", p.name, s.result, s.seconds)
	if !f.Same() {
		fmt.Printf("%s is not noted: the tree is not that of the commit, or no longer\n", p.name)
	}
	return s, f.Write(p.name, s.String())
}

// tail returns the last lines of a file.
func tail(name string, n int) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}
