package secure_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ query, want string }{
		{"", ""},
		{"tls_server_name=other", ""},
		{"tls_ca=/does/not/exist", "parameter tls_ca: open /does/not/exist"},
		{"tls_ca=" + empty, "has no certificate"},
		{"tls_cert=" + empty, "must be given together"},
		{"tls_key=" + empty, "must be given together"},
		{"tls_cert=" + empty + "&tls_key=" + empty, "parameters tls_cert and tls_key: "},
	} {
		a, err := driver.ParseAddress("store://host?" + test.query)
		if err != nil {
			t.Fatal(err)
		}
		c, err := secure.Config(a)
		if test.want == "" {
			if err != nil || c.RootCAs != nil || c.ServerName != strings.TrimPrefix(test.query, "tls_server_name=") {
				t.Errorf("Config of %q = %+v, %v", test.query, c, err)
			}
			if err := a.Done(); err != nil {
				t.Errorf("after Config, %q has a parameter that nobody knows: %v", test.query, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Config of %q = %v; want an error that says %q", test.query, err, test.want)
		}
	}
}
