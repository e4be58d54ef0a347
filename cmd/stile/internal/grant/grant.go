// Package grant keeps the handles of locks that stile lock has taken, in files that only their user can read.
//
// Of the other packages of the command it may import flags and store.
package grant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
)

// A grant is one acquisition by stile lock. renew and unlock act on a grant, never on a name: when a slow script has lost
// its lock, the name belongs to the next holder. The shell that took the lock has the grant's handle in a variable; other
// callers give the token or the handle.
type grant struct {
	Path    string // of its handle
	File    *File
	Renewed time.Time // or taken
}

// grantVariables begins the names of the variables that have a shell's grants, one for each name in each store.
const grantVariables = "STILE_GRANT_"

// VariableName returns the name of the variable for the grant of a name.
func VariableName(a *driver.Address, name string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	return grantVariables + readable[:min(len(readable), 40)] + "_" + strings.ToUpper(NameKey(a, name))
}

// NameKey differs for different names, in all stores.
func NameKey(a *driver.Address, name string) string {
	sum := sha256.Sum256([]byte(StoreID(a) + "\x00" + name))
	return hex.EncodeToString(sum[:8])
}

// Path returns the path of a grant's handle. No other grant has this path. The file's name does not reveal the claim's id,
// which is enough to release the lock.
func Path(dir string, a *driver.Address, h *File) string {
	readable := driver.EncodeName(h.Name)
	readable = strings.TrimLeft(readable[:min(len(readable), 100)], ".")
	id := sha256.Sum256([]byte(h.ID))
	return filepath.Join(dir, readable+"-"+NameKey(a, h.Name)+"-"+hex.EncodeToString(id[:6])+".handle")
}

// All returns the grants with a handle in the user's folder, the oldest first.
func All() (list []*grant) {
	dir, err := store.RuntimeDir()
	if err != nil {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "*.handle"))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if file, err := Read(path); err == nil {
			list = append(list, &grant{path, file, info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b *grant) int { return a.Renewed.Compare(b.Renewed) })
	return list
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// deadFor is how long the handle of a lost grant is kept after its last renewal and its ttl, in case the clock was moved.
const deadFor = time.Minute

// Clear removes the handles of grants that ran out without an unlock.
func Clear() {
	for _, g := range All() {
		if time.Since(g.Renewed) > time.Duration(g.File.TTL)+deadFor {
			_ = g.File.Remove(g.Path) // if this fails, the next Clear tries again
		}
	}
}

// A Meant is the caller's description of the grant that renew or unlock must act on.
type Meant struct {
	Path  string // of its handle
	Token string // "" if only the file has it
}

// String is the value of the grant's variable.
func (m Meant) String() string { return m.Token + "@" + m.Path }

// Variable returns the shell's grant of a name, if it has one.
func Variable(a *driver.Address, name string) (m Meant, set bool, err error) {
	key := VariableName(a, name)
	text, set := os.LookupEnv(key)
	if !set {
		return m, false, nil
	}
	m.Token, m.Path, _ = strings.Cut(text, "@")
	if m.Token == "" || m.Path == "" {
		return m, true, exit.Usage("%s is %q, which is not what stile lock printed", key, text)
	}
	return m, true, nil
}

// Remove removes the handle, unless the file belongs to another grant by now.
func (h *File) Remove(path string) error {
	if found, err := Read(path); err != nil || found.ID != h.ID {
		return nil //nolint:nilerr // it is gone, or another grant's
	}
	// A rename in the same folder needs no room, so this works on a full disk too.
	moved := filepath.Join(filepath.Dir(path), ".handle-"+rand.Text())
	if err := os.Rename(path, moved); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer os.Remove(moved)
	if found, err := Read(moved); err != nil || found.ID != h.ID {
		return os.Link(moved, path) // it fails if yet another handle has come, which is just as good
	}
	return nil
}
