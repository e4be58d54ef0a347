//go:build unix

package remote_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
)

// grown makes a service answer as a newer one may: each object of its JSON has one more field.
func grown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(strings.ReplaceAll(answer.Body.String(), `{"`, `{"newer":{"a":[1]},"`))) // the client may be gone
	})
}

// moved makes a request that of another version.
func moved(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/v2" + strings.TrimPrefix(r.URL.Path, "/v1")
		next.ServeHTTP(w, r)
	})
}

// A client of another version than the service is refused, and learns both versions. Within a version a client works with a
// newer service; a newer client's request is refused if the service lacks a field of it, which the answer names.
func TestVersions(t *testing.T) {
	addr, _ := service(t, memory.New(), moved)
	_, err := driver.Open(drive.Timely(t), "stile://"+addr)
	judge(t, "a client of another version", err, driver.OutcomeRefused, false)
	drive.Says(t, err, "version 1 ", "version 2")

	addr, _ = service(t, memory.New(), grown)
	d := open(t, addr)
	c := drive.Claim("a", "x")
	drive.Holds(t, d, c)
	if err := drive.Renew(t, d, c); err != nil {
		t.Errorf("a renewal by a newer service: %v", err)
	}
	if n := drive.Listed(t, d); n != 1 {
		t.Errorf("a newer service lists %d claims; want 1", n)
	}
	drive.Leave(t, d, c)
	if err := drive.Renew(t, d, c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a renewal of a claim that left: %v; want ErrGone", err)
	}

	addr, _ = service(t, memory.New(), nobody)
	res, err := http.Post("http://"+addr+api.Leave, api.JSON, strings.NewReader(`{"claim":{},"newer":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if e, ok := api.ReadError(answer); !ok || e.Code != api.CodeInvalid || !strings.Contains(e.Message, `"newer"`) {
		t.Errorf("a request of a newer client = %s, %v; want a refusal that names the field", answer, err)
	}
}
