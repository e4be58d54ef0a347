package migratelock

import (
	"testing"

	"github.com/stilelock/stile/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Vet(t, "../../docs/howto/adapters.md", "golang-migrate", `"errors"`, `"time"`, `"github.com/golang-migrate/migrate/v4"`,
		`"github.com/golang-migrate/migrate/v4/database"`, `_ "github.com/golang-migrate/migrate/v4/source/file"`,
		`"github.com/stilelock/stile/adapters/migratelock"`)
}
