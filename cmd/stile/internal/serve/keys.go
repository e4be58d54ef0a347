package serve

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keySize is the size in bytes of a key that this command draws.
const keySize = 32

// sharedKeys reads the keys of the replicas from a file, a line each. It makes the file with a key if it is missing.
func sharedKeys(path string) ([][]byte, error) {
	keys, err := readKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) { // another service may have made it meanwhile
		return nil, err
	}
	return readKeys(path)
}

// readKeys reads the file. It refuses a file that others than its owner may use.
func readKeys(path string) (keys [][]byte, err error) {
	text, _, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		key, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil || len(key) < keySize {
			return nil, fmt.Errorf("%s: line %d is no key of at least %d digits, from 0 to f", path, i+1, 2*keySize)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// makeKey makes the file with a random key. Nobody sees a part of it.
func makeKey(path string) error {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)                                      // cannot fail
	f, err := os.CreateTemp(filepath.Dir(path), ".stile-key-") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, hex.EncodeToString(key))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // unlike Rename, it replaces no other service's key
}
