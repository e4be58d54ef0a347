package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/api"
)

// Each path has the version, and a path of another version is known as such.
func TestOtherVersion(t *testing.T) {
	for _, path := range []string{api.Enter, api.Traits, api.Watch, "/", "/v", "/v1", "/version", "/vx/enter", "/v-1/a", "/1/a", "/2/a"} {
		if err := api.OtherVersion(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/v0/enter", "/v2/enter", "/v2", "/v12/watch"} {
		if err := api.OtherVersion(path); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", api.Version, " of")) {
			t.Errorf("%s: %v; want an error with both versions", path, err)
		}
	}
	for _, path := range []string{api.Enter, api.Await, api.Renew, api.Leave, api.Batch, api.List, api.Break, api.Identity, api.Traits, api.Watch, api.Alerts} {
		if !strings.HasPrefix(path, fmt.Sprintf("/v%d/", api.Version)) {
			t.Errorf("%s is not of version %d", path, api.Version)
		}
	}
}
