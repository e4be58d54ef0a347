package server

import (
	"bytes"
	"testing"
)

// Each purpose has a key of its own, of each secret, and no key is a secret itself.
func TestKeysFor(t *testing.T) {
	secrets := [][]byte{bytes.Repeat([]byte("a"), 32), bytes.Repeat([]byte("b"), 40)}
	seen := map[string]bool{string(secrets[0]): true, string(secrets[1][:minKey]): true}
	for _, what := range []purpose{forLogins, forConsul} {
		keys, err := keysFor(what, secrets)
		if err != nil || len(keys) != 2 {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for i, key := range keys {
			if len(key) != minKey || seen[string(key)] {
				t.Errorf("key %d for %q has %d bytes, or has another purpose too", i, what, len(key))
			}
			seen[string(key)] = true
		}
	}
}
