// Package notes keeps what was done for a commit, so that it is not done again.
package notes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Folder has the notes of one commit; each is a file in it.
type Folder struct {
	Dir    string
	Commit string
	Clean  bool // the tree has nothing but the commit; otherwise nothing is noted, nor taken from notes
}

// Open returns the notes below a folder for the commit that the tree is at.
func Open(below string) (*Folder, error) {
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("what passes is noted for a commit: %w", err)
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return nil, err
	}
	return &Folder{Dir: filepath.Join(below, commit), Commit: commit, Clean: changed == ""}, nil
}

// Same reports whether the tree is still at the commit, with nothing else.
func (f *Folder) Same() bool {
	now, err := Open(filepath.Dir(f.Dir))
	return err == nil && now.Clean && f.Clean && now.Commit == f.Commit
}

// Read returns a note, empty if there is none.
func (f *Folder) Read(name string) string {
	if !f.Clean {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(f.Dir, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// Write writes a note, unless the tree is not, or no longer, the commit's tree.
func (f *Folder) Write(name, text string) error {
	if !f.Same() {
		return nil
	}
	return f.Save(name, text)
}

// Save writes a file beside the notes, whatever the tree is.
func (f *Folder) Save(name, text string) error {
	path := filepath.Join(f.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
