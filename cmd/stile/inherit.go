package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// environ returns the environment of CMD: that of stile, but for the variables in which stile speaks to CMD, and with the
// same store. A --url with a password goes by a file that only this user can read, and whose path is returned: it is to be
// removed when CMD has ended.
func (s *store) environ() (env []string, secret string, err error) {
	env = without(os.Environ(), "STILE_NAME", "STILE_TOKEN", "STILE_DEADLINE", "STILE_VALUE", heldVariable)
	if !s.given() {
		return env, "", nil
	}
	a, url, err := s.address()
	if err != nil {
		return nil, "", err
	}
	env = without(env, urlVariable, urlFileVariable)
	if !hide(a, url) {
		return append(env, urlVariable+"="+url), "", nil
	}
	if secret, err = writeSecret(url); err != nil {
		return nil, "", usage("CMD cannot be told its store, since --url has a password and no file for it can be written: %w; put the URL into %s",
			err, urlVariable)
	}
	return append(env, urlFileVariable+"="+secret), secret, nil
}

// without returns an environment without some variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// writeSecret puts a text into a new file that only this user can read.
func writeSecret(text string) (path string, err error) {
	dir, err := handleDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "cmd-"+rand.Text()+".url")
	return path, os.WriteFile(path, []byte(text+"\n"), 0o600)
}
