package main

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

	"github.com/stilelock/stile/cmd/stile/internal/exit"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
)

// A grant is one acquisition of stile lock. renew and unlock act on a grant, never on a name: when a slow script has lost
// its lock, the name is the next holder's. The shell that took the lock has the grant's handle in a variable; other
// callers say the token or the handle.
type grant struct {
	path    string // of its handle
	file    *handleFile
	renewed time.Time // or taken
}

// grantVariables begins the variables in which a shell has its grants, one for each name in each store.
const grantVariables = "STILE_GRANT_"

// grantVariable returns the variable for a name's grant.
func grantVariable(a *driver.Address, name string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	return grantVariables + readable[:min(len(readable), 40)] + "_" + strings.ToUpper(nameKey(a, name))
}

// nameKey tells apart the names of all stores.
func nameKey(a *driver.Address, name string) string {
	sum := sha256.Sum256([]byte(storeID(a) + "\x00" + name))
	return hex.EncodeToString(sum[:8])
}

// handlePath returns where the handle of a grant is kept, which is another grant's never. The file's name does not tell
// the claim's id, whose knowledge lets release the lock.
func handlePath(dir string, a *driver.Address, h *handleFile) string {
	readable := driver.EncodeName(h.Name)
	readable = strings.TrimLeft(readable[:min(len(readable), 100)], ".")
	id := sha256.Sum256([]byte(h.ID))
	return filepath.Join(dir, readable+"-"+nameKey(a, h.Name)+"-"+hex.EncodeToString(id[:6])+".handle")
}

// grants returns those whose handles are in the user's folder, the oldest first.
func grants() (list []*grant) {
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
		if file, err := readHandle(path); err == nil {
			list = append(list, &grant{path, file, info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b *grant) int { return a.renewed.Compare(b.renewed) })
	return list
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// deadFor is for how long after its last renewal and its ttl a lost grant's handle is kept, in case the clock was moved.
const deadFor = time.Minute

// clearGrants removes the handles of grants that ran out: nobody unlocked them.
func clearGrants() {
	for _, g := range grants() {
		if time.Since(g.renewed) > time.Duration(g.file.TTL)+deadFor {
			_ = g.file.remove(g.path) // the next time
		}
	}
}

// A meant grant is the one that renew or unlock is to act on, as its caller has it.
type meant struct {
	path  string // of its handle
	token string // "" if only the file says it
}

// String is what the grant's variable is set to.
func (m meant) String() string { return m.token + "@" + m.path }

// variable returns the grant of a name that the shell has, if it has one.
func variable(a *driver.Address, name string) (m meant, set bool, err error) {
	key := grantVariable(a, name)
	text, set := os.LookupEnv(key)
	if !set {
		return m, false, nil
	}
	m.token, m.path, _ = strings.Cut(text, "@")
	if m.token == "" || m.path == "" {
		return m, true, exit.Usage("%s is %q, which is not what stile lock printed", key, text)
	}
	return m, true, nil
}

// remove removes the handle, unless the file is another grant's by now.
func (h *handleFile) remove(path string) error {
	if found, err := readHandle(path); err != nil || found.ID != h.ID {
		return nil //nolint:nilerr // it is gone, or not ours
	}
	// A new name in the same folder takes no room, so this works on a full disk too.
	moved := filepath.Join(filepath.Dir(path), ".handle-"+rand.Text())
	if err := os.Rename(path, moved); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer os.Remove(moved)
	if found, err := readHandle(moved); err != nil || found.ID != h.ID {
		return os.Link(moved, path) // it fails if yet another has come, which is as good
	}
	return nil
}
