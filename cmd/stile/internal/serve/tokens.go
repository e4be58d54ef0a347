package serve

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/server"
)

// A grant is one token in the file's form: its SHA-256, not the token itself. A token has 256 random bits, so its hash does
// not reveal it, and the time of a look-up by the hash reveals nothing either.
type grant struct {
	Principal string  `json:"principal"`
	Hash      string  `json:"sha256"`
	Rights    []right `json:"rights"`
}

// A right is a [server.Right].
type right struct {
	Verbs  []server.Verb `json:"verbs"`
	Prefix string        `json:"prefix"`
}

// grants is the content of the file.
type grants struct {
	Tokens []grant `json:"tokens"`
}

// id returns the name of a token for people.
func (g *grant) id() string { return g.Hash[:12] }

// check returns an error if a grant is invalid.
func (g *grant) check() error {
	if err := server.CheckPrincipal(g.Principal); err != nil {
		return err
	}
	if sum, err := hex.DecodeString(g.Hash); err != nil || len(sum) != sha256.Size || strings.ToLower(g.Hash) != g.Hash {
		return fmt.Errorf("the sha256 of a token of %s is not %d digits, from 0 to f", g.Principal, 2*sha256.Size)
	}
	for _, r := range g.Rights {
		for _, v := range r.Verbs {
			if !slices.Contains(server.Verbs, v) {
				return fmt.Errorf("%.40q is no verb: %s", v, verbs())
			}
		}
	}
	return nil
}

// verbs lists the verbs for a message.
func verbs() string {
	words := make([]string, len(server.Verbs))
	for i, v := range server.Verbs {
		words[i] = string(v)
	}
	return "there are " + strings.Join(words, ", ")
}

// readGrants reads the file, and returns its fs.FileInfo. It refuses a file that others than its owner may use.
func readGrants(path string) (g grants, is fs.FileInfo, err error) {
	text, is, err := readPrivate(path)
	if err != nil {
		return g, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return grants{}, nil, fmt.Errorf("%s is no file of tokens: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // the tokens of a second file would be missing
		return grants{}, nil, fmt.Errorf("%s is no file of tokens: something follows the JSON", path)
	}
	for i := range g.Tokens {
		if err := g.Tokens[i].check(); err != nil {
			return grants{}, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return g, is, nil
}

// changeGrants changes the file; only one command does so at a time. A server sees the old file or the new one, never a
// part.
func changeGrants(path string, change func(*grants) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close() // unlocks the folder
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return &fs.PathError{Op: "lock", Path: dir.Name(), Err: err}
	}
	g, _, err := readGrants(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := change(&g); err != nil {
		return err
	}
	text, err := json.MarshalIndent(&g, "", "  ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(dir.Name(), ".stile-tokens-") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // after the rename there is nothing to remove
	_, err = next.Write(append(text, '\n'))
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err == nil {
		err = dir.Sync()
	}
	return err
}

// addToken adds a token to the file, and returns it.
func addToken(path, principal string, rights []right) (token string, g grant, err error) {
	random := make([]byte, sha256.Size)
	_, _ = rand.Read(random) // cannot fail
	token = "stile_" + base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(token))
	g = grant{principal, hex.EncodeToString(sum[:]), rights}
	if err := g.check(); err != nil {
		return "", g, err
	}
	err = changeGrants(path, func(all *grants) error {
		all.Tokens = append(all.Tokens, g)
		return nil
	})
	return token, g, err
}

// removeToken removes a token from the file by its id.
func removeToken(path, id string) error {
	return changeGrants(path, func(all *grants) error {
		left := slices.DeleteFunc(all.Tokens, func(g grant) bool { return g.id() == id })
		if len(left) == len(all.Tokens) {
			return fmt.Errorf("%s has no token with the id %.40q", path, id)
		}
		all.Tokens = left
		return nil
	})
}

// tokens authenticates requests by a file, which may change meanwhile. While the file cannot be used, every request is
// refused.
type tokens struct {
	path string
	warn func(error) // takes the fault of the file, once per change of the fault

	mu   sync.Mutex // guards the fields below
	is   fs.FileInfo
	of   map[[sha256.Size]byte]*server.Principal
	said string // the last warning
}

// authenticate is a [server.Authenticator].
func (t *tokens) authenticate(r *http.Request) (*server.Principal, error) {
	all := r.Header.Values("Authorization")
	of, err := t.current()
	if err != nil || len(all) != 1 {
		return nil, err
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, nil
	}
	return of[sha256.Sum256([]byte(token))], nil
}

// current returns the file's current principals, by the hashes of their tokens.
func (t *tokens) current() (map[[sha256.Size]byte]*server.Principal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if unchanged(t.path, t.is) {
		return t.of, nil
	}
	g, is, err := readGrants(t.path)
	if err != nil {
		t.is, t.of = nil, nil
		if t.said != err.Error() {
			t.said = err.Error()
			t.warn(err)
		}
		return nil, err
	}
	t.is, t.of, t.said = is, map[[sha256.Size]byte]*server.Principal{}, ""
	for _, one := range g.Tokens {
		p := &server.Principal{Name: one.Principal}
		for _, r := range one.Rights {
			p.Rights = append(p.Rights, server.Right(r))
		}
		var sum [sha256.Size]byte
		_, _ = hex.Decode(sum[:], []byte(one.Hash)) // check has checked it
		t.of[sum] = p
	}
	return t.of, nil
}
