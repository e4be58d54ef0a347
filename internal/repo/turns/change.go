package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// A change decides which parts are chosen.
type change struct {
	files []string
	of    string // which commits have them, in words
	turn  int
	by    string // what the turn is, in words
}

// recent is how many commits are the change on main itself.
const recent = 5

// changeSince asks git. Base is a revision, or empty.
func changeSince(base string) (*change, error) {
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("the parts are chosen by the commit: %w", err)
	}
	c := &change{}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	count, err := git("rev-list", "--count", "HEAD")
	if err != nil {
		return nil, err
	}
	if c.turn, err = strconv.Atoi(count); err != nil {
		return nil, err
	}
	c.by = "commit " + count
	if shallow == "true" || c.turn == 1 { // the number would be the same for each commit
		n, err := strconv.ParseUint(head[:7], 16, 32)
		if err != nil {
			return nil, err
		}
		c.turn, c.by = int(n), "the hash "+head[:7]+", since the clone has no history to count"
	}
	from, of, err := start(head, base)
	if err != nil {
		return nil, err
	}
	c.of = of
	if from != "" {
		err = c.add("diff", "--name-only", "--no-renames", from, "HEAD")
	}
	for _, args := range [][]string{{"diff", "--name-only", "--no-renames", "HEAD"},
		{"ls-files", "--others", "--exclude-standard"}} {
		if err == nil {
			err = c.add(args...)
		}
	}
	slices.Sort(c.files)
	c.files = slices.Compact(c.files)
	c.of += fmt.Sprintf(", %d files", len(c.files))
	return c, err
}

// start returns the revision at which the change starts, empty if there is none, and says what the change is.
func start(head, base string) (from, of string, err error) {
	if base != "" {
		from, err = git("merge-base", base, "HEAD")
		if err != nil {
			return "", "", fmt.Errorf("BASE=%s has no commit in common with HEAD here: %w", base, err)
		}
		return from, "since BASE=" + base, nil
	}
	for _, name := range []string{"origin/main", "main"} {
		if from, err := git("merge-base", name, "HEAD"); err == nil && from != head {
			return from, "since " + name, nil
		}
	}
	for n := recent; n > 0; n-- {
		if from, err := git("rev-parse", "--verify", "--quiet", fmt.Sprintf("HEAD~%d", n)); err == nil {
			return from, fmt.Sprintf("the last commits, %d in number", n), nil
		}
	}
	return "", "unknown, since the clone has one commit", nil
}

// add adds the files that git names.
func (c *change) add(args ...string) error {
	out, err := git(append([]string{"-c", "core.quotePath=false"}, args...)...)
	if err == nil && out != "" {
		c.files = append(c.files, strings.Split(out, "\n")...)
	}
	return err
}

// git returns what git prints.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
