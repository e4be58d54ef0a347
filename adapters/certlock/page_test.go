package certlock

import (
	"testing"

	"github.com/stilelock/stile/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Vet(t, "../../docs/howto/adapters.md", "certmagic and Caddy", `"github.com/caddyserver/certmagic"`,
		`"github.com/stilelock/stile/adapters/certlock"`)
}
