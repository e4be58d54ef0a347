package gooselock

import (
	"testing"

	"github.com/stilelock/stile/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Vet(t, "../../docs/howto/adapters.md", "goose", `"database/sql"`, `"os"`, `"github.com/pressly/goose/v3"`,
		`"github.com/stilelock/stile/adapters/gooselock"`)
}
