package mysql

import (
	"testing"

	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	guardtest.SQL(t, &guardtest.Database{DB: raw(t, server, database(t, server)), Dialect: guard.MySQL})
}

func BenchmarkGuard(b *testing.B) {
	guardtest.Cost(b, &guardtest.Database{DB: raw(b, server, database(b, server)), Dialect: guard.MySQL})
}
