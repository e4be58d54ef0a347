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

// What the servers promised stays as it was while the agent has trouble. Only a refusal says that they may not be asked, and
// an agent in dev mode does not come to survive a restart because it did not answer.
func TestPromisesAreNotMadeOfTrouble(t *testing.T) {
	t.Parallel()
	target := &url.URL{Scheme: "http", Host: servertest.Consul(t, nil).Addr}
	var status atomic.Int32 // with which the agent's settings are answered; 0 means that they are
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
