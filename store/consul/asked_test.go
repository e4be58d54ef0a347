package consul

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// The promises stay the same while the agent does not answer. Only a refusal means that the token may not read the settings.
// A missing answer of an agent in dev mode must not become the promise to survive a restart.
func TestPromisesAreNotMadeOfTrouble(t *testing.T) {
	t.Parallel()
	target := &url.URL{Scheme: "http", Host: servertest.Consul(t, nil).Addr}
	var status atomic.Int32 // the status of the answer about the agent's settings; 0 means the agent's own answer
	pass := httputil.NewSingleHostReverseProxy(target)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := status.Load(); code != 0 && strings.HasSuffix(r.URL.Path, "/agent/self") {
			http.Error(w, "trouble", int(code))
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(agent.Close)
	d := open(t, "consul://"+strings.TrimPrefix(agent.URL, "http://"))
	for _, tt := range []struct {
		status int32
		fails  bool
	}{
		{0, false}, {http.StatusForbidden, false},
		{http.StatusInternalServerError, true}, {http.StatusBadGateway, true}, {http.StatusOK, true},
	} {
		status.Store(tt.status)
		traits, err := d.promises(t.Context())
		if fails := err != nil; fails != tt.fails {
			t.Errorf("with status %d the servers promise %+v, %v; want an error: %v", tt.status, traits, err, tt.fails)
		}
		refused := strings.Contains(strings.Join(traits.Remarks(), "\n"), "does not let the agent's settings be read")
		if want := tt.status == http.StatusForbidden; refused != want {
			t.Errorf("with status %d it is said that the token may not ask: %v; want %v", tt.status, refused, want)
		}
	}
}
