package serve

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A handler that panics leaves its trace, and a client that breaks its connection leaves none.
func TestPanicsAreLogged(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("a defect")
		}
		w.WriteHeader(http.StatusNoContent)
		w.WriteHeader(http.StatusNoContent) // which net/http says something of
	}))
	web.Config.ErrorLog = log.New(panics{&said}, "stile: ", 0)
	web.Start()
	for _, path := range []string{"/", "/panic"} {
		if r, err := web.Client().Get(web.URL + path); err == nil {
			_, _ = io.Copy(io.Discard, r.Body) // there is none
			r.Body.Close()
		}
	}
	web.Close() // until then its handlers may write
	if got := said.String(); !strings.HasPrefix(got, "stile: http: panic serving") || !strings.Contains(got, "a defect") ||
		strings.Contains(got, "superfluous") {
		t.Errorf("the log is %q; want the panic and its trace, and nothing else", got)
	}
}
