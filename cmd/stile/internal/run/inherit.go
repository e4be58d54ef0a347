package run

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
	"github.com/stilelock/stile/internal/phrase"
)

// Environ returns the environment of CMD: stile's own, without the variables by which stile informs a CMD, and with the same
// store. A --url with a password goes into a file that only this user can read. Environ returns the file's path, and the
// caller removes the file when CMD has ended.
func Environ(s *store.Store) (env []string, secret string, err error) {
	env = slices.DeleteFunc(Without(os.Environ(), nameVariable, tokenVariable, "STILE_DEADLINE", "STILE_VALUE",
		claim.HeldVariable), numbered)
	if !s.Given() {
		return env, "", nil
	}
	a, url, err := s.Address()
	if err != nil {
		return nil, "", err
	}
	env = Without(env, store.URLVariable, store.URLFileVariable)
	if !opening.Hide(a, url) {
		return append(env, store.URLVariable+"="+url), "", nil
	}
	if secret, err = writeSecret(url); err != nil {
		return nil, "", exit.Usage("CMD cannot be told its store, since --url has a password and no file for it can be "+
			"written: %w; put the URL into %s",
			err, store.URLVariable)
	}
	return append(env, store.URLFileVariable+"="+secret), secret, nil
}

// Without returns an environment without some variables.
func Without(env []string, names ...string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// nameVariable and tokenVariable give CMD its lock. For several locks the variables end in _1, _2, …, so that a script that
// expects a single lock finds none, instead of one of several.
const (
	nameVariable  = "STILE_NAME"
	tokenVariable = "STILE_TOKEN"
)

// numbered reports whether an entry of the environment is one of the variables that end in a number.
func numbered(entry string) bool {
	variable, _, set := strings.Cut(entry, "=")
	under := max(0, strings.LastIndexByte(variable, '_'))
	name, number := variable[:under], strings.TrimPrefix(variable[under:], "_")
	return set && (name == nameVariable || name == tokenVariable) && number != "" && strings.Trim(number, "0123456789") == ""
}

// Tell returns the variables that give CMD its locks.
func (r *Runner) Tell(a *driver.Address, lease *stile.Lease, deadline time.Time) []string {
	env := []string{"STILE_DEADLINE=" + phrase.Stamp(deadline)}
	var held []string
	for i, name := range r.Names { // in the order of the command line, which is not the order of the parts
		for _, p := range lease.Parts() {
			if p.Name() != name {
				continue
			}
			suffix := ""
			if len(r.Names) > 1 {
				suffix = "_" + strconv.Itoa(i+1)
			}
			env = append(env, nameVariable+suffix+"="+name, tokenVariable+suffix+"="+tokenText(p.Token()))
		}
		held = append(held, r.Hold(a, name).String())
	}
	for _, h := range claim.HeldLocks() {
		held = append(held, h.String())
	}
	env = append(env, claim.HeldVariable+"="+strings.Join(held, " "))
	if r.Candidate {
		env = append(env, "STILE_VALUE="+r.Value)
	}
	return env
}

// tokenText returns a fencing token as text; "" if the store has no fencing.
func tokenText(token int64) string {
	if token == 0 {
		return ""
	}
	return strconv.FormatInt(token, 10)
}

// writeSecret puts a text into a new file that only this user can read.
func writeSecret(text string) (path string, err error) {
	dir, err := store.RuntimeDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "cmd-"+rand.Text()+".url")
	return path, os.WriteFile(path, []byte(text+"\n"), 0o600)
}
