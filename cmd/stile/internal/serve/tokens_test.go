package serve

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/server"
)

// asked returns the principal of a request with some Authorization headers.
func asked(t *testing.T, k *tokens, headers ...string) (*server.Principal, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return k.authenticate(r)
}

// A token is known from when it is made until it is revoked. The file never has it, and only its owner may have the file;
// while the file cannot be used, nobody is known, and a warning says why, once.
func TestFileOfTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var warned []string
	k := &tokens{path: path, warn: func(err error) { warned = append(warned, err.Error()) }}
	first, one, err := addToken(path, "ci", []right{{[]server.Verb{server.Lock}, "ci/"}})
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := addToken(path, "ops", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), first) || len(first) != len("stile_")+43 || first == second {
		t.Fatalf("%s, %v has %s or %s", text, err, first, second)
	}
	for header, want := range map[string]string{
		"Bearer " + first: "ci", "bearer " + first: "ci", "Bearer " + second: "ops",
		"Bearer " + first + "x": "", "Basic " + first: "", first: "", "Bearer " + one.Hash: "",
	} {
		p, err := asked(t, k, header)
		if err != nil || (p == nil) != (want == "") || p != nil && p.Name != want {
			t.Errorf("%s is of %+v, %v; want %q", header, p, err, want)
		}
	}
	if p, err := asked(t, k, "Bearer "+first, "Bearer "+second); p != nil || err != nil {
		t.Errorf("two tokens are of %+v, %v; want nobody", p, err)
	}
	if p, _ := asked(t, k, "Bearer "+first); p == nil || len(p.Rights) != 1 || p.Rights[0].Prefix != "ci/" {
		t.Errorf("the rights of ci are %+v", p)
	}
	for _, change := range []struct {
		do   func() error
		says string
	}{
		{func() error { return os.Chmod(path, 0o640) }, "others can use it; make it chmod 600"},
		{func() error { return os.Chmod(path, 0o602) }, "others can use it"},
		{func() error { return os.WriteFile(path, []byte(`{"tokens":[{"principal":"c i"}]}`), 0o600) }, "name of a principal"},
		{func() error {
			return os.WriteFile(path, []byte(`{"tokens":[{"principal":"ci","sha256":"00"}]}`), 0o600)
		}, "64 digits"},
		{func() error {
			return os.WriteFile(path, []byte(strings.Replace(string(text), "lock", "unlock", 1)), 0o600)
		}, "no verb"},
		{func() error { return os.WriteFile(path, text[:30], 0o600) }, "no file of tokens"},
		{func() error { return os.WriteFile(path, slices.Concat(text, text), 0o600) }, "something follows the JSON"},
		{func() error { return os.Remove(path) }, "no such file"},
	} {
		warned = nil
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if p, err := asked(t, k, "Bearer "+first); p != nil || err == nil {
				t.Errorf("%s: the token is of %+v, %v; want an error", change.says, p, err)
			}
		}
		if len(warned) != 1 || !strings.Contains(warned[0], change.says) {
			t.Errorf("the warnings are %q; want one with %q", warned, change.says)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := asked(t, k, "Bearer "+first); p == nil || err != nil {
			t.Errorf("with the file as it was the token is of %+v, %v", p, err)
		}
	}
	if err := removeToken(path, one.id()); err != nil {
		t.Fatal(err)
	}
	if p, err := asked(t, k, "Bearer "+first); p != nil || err != nil {
		t.Errorf("a revoked token is of %+v, %v; want nobody", p, err)
	}
	if p, _ := asked(t, k, "Bearer "+second); p == nil {
		t.Error("the other token was revoked too")
	}
	if err := removeToken(path, one.id()); err == nil || !strings.Contains(err.Error(), "no token with the id") {
		t.Errorf("revoking it again = %v", err)
	}
}

// Commands that change the file at the same time all do.
func TestTokensAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, _, err := addToken(path, "ci", nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if g, _, err := readGrants(path); err != nil || len(g.Tokens) != 20 {
		t.Errorf("%d tokens, %v; want 20", len(g.Tokens), err)
	}
}

func TestParseRight(t *testing.T) {
	for text, want := range map[string]string{
		"lock": "lock", "lock,read:ci/": `lock,read:"ci/"`, "read:a:b": `read:"a:b"`, "": "no verb", "unlock": "no verb", "lock, read": "no verb",
	} {
		r, err := parseRight(text)
		if got := shown([]right{r}); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
}
