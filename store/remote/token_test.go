//go:build unix

package remote_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// A client shows the token of its URL or of a file, and no error has it, whatever the service says.
func TestToken(t *testing.T) {
	const token = "stile_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
	s, err := server.New(memory.New(), &server.Options{Authenticate: func(r *http.Request) (*server.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return nil, nil
		}
		return &server.Principal{Name: "ci", Rights: []server.Right{{Verbs: server.Verbs, Prefix: "a"}}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	addr := web.Listener.Addr().String()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"stile://:" + token + "@" + addr, "stile://" + addr + "?token_file=" + file} {
		d := drive.Opener(url)(t)
		if p := drive.Enter(t, d, drive.Claim("a", "x"+url[len(url)-5:])); p.Ticket == 0 {
			t.Errorf("enter = %+v", p)
		}
		_, err := d.Enter(t.Context(), drive.Claim("b"+token, "y"))
		if driver.OutcomeOf(err) != driver.OutcomeRefused || strings.Contains(err.Error(), token) {
			t.Errorf("enter of another name = %v; want a refusal without the token", err)
		}
		d.Close()
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, says := range map[string]string{
		"stile://" + addr:                                   "no valid credentials",
		"stile://:" + token + "x@" + addr:                   "no valid credentials",
		"stile://" + token + "@" + addr:                     "no user",
		"stile://:" + token + "@10.255.255.1":               "plain text",
		"stile://:" + token + "@" + addr + ",locks.example": "plain text",
		"stile://:a%0Ab@" + addr:                            "letters, digits and signs",
		"stile://" + addr + "?token_file=" + file + "x":     "no such file",
		"stile://" + addr + "?token_file=" + empty:          "is empty",
		"stile://:x@" + addr + "?token_file=" + file:        "not in both",
	} {
		d, err := driver.Open(t.Context(), url)
		if err == nil {
			d.Close()
			t.Errorf("%s opens; want an error", says)
		} else if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), token) {
			t.Errorf("%v; want %q, and no token", err, says)
		}
	}
}
