package conn

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// A Script is constant: all input comes through KEYS and ARGV. It answers with its first key, ARGV[1], a status word and its
// results, so that an answer to another request is not mistaken for its own; see [Answer].
type Script struct {
	text, sha string
	beside    func(key string) string // names a second key of the script; nil if it has none
}

// NewScript returns a script that uses one key and, unless beside is nil, the key that beside returns for it.
func NewScript(text string, beside func(key string) string) *Script {
	sum := sha1.Sum([]byte(text)) // the server's name for the script, not a security measure
	return &Script{text: text, sha: hex.EncodeToString(sum[:]), beside: beside}
}

// Text returns the script's text, as the server runs it.
func (s *Script) Text() string { return s.text }

// SHA returns the server's name for the script.
func (s *Script) SHA() string { return s.sha }

// keys returns the keys that a script runs on.
func (s *Script) keys(key string) []string {
	if s.beside == nil {
		return []string{key}
	}
	return []string{key, s.beside(key)}
}

// EvenIfFull returns the first line of a script that must run even if the servers' memory is full, or "" if the servers do
// not know such a line.
func (c *Conn) EvenIfFull() string {
	if c.allowOOM {
		return "#!lua flags=allow-oom\n"
	}
	return ""
}

// Load sends scripts to the servers. A failure does not matter: a missing script is sent with its call. In a cluster Load
// does not wait, since one of the servers may hang.
func (c *Conn) Load(ctx context.Context, scripts ...*Script) {
	load := func(ctx context.Context) {
		askAll(ctx, c, c.client.Nodes(), func(ctx context.Context, _ string, node rueidis.Client) (struct{}, error) {
			var cmds rueidis.Commands
			for _, s := range scripts {
				cmds = append(cmds, node.B().ScriptLoad().Script(s.text).Build())
			}
			node.DoMulti(ctx, cmds...)
			return struct{}{}, nil
		})
	}
	if c.Spread() {
		c.Go(func() { load(c.Context()) })
		return
	}
	load(ctx)
}
