package postgres

import (
	"context"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/advisory"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		driver.Register(scheme, openAddress)
	}
}

func openAddress(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	if word := a.Param("layout", "queue"); word != "queue" {
		return openRows(ctx, a, word)
	}
	switch mode := a.Param("mode", "rows"); mode {
	case "rows":
	case "session":
		return advisory.Open(ctx, a)
	default:
		return nil, driver.Refused(fmt.Errorf("parameter mode: %q is neither rows nor session", mode))
	}
	d, err := Open(ctx, a)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Open connects to the PostgreSQL at an address:
//
//	postgres://[user[:password]@]host[:5432],…[/database]
//
// Of several hosts it uses the one that accepts writes. Parameters: schema, prefix, dial_timeout, pool_max_conns (how
// many connections, besides the one that listens), application_name, and sslmode, sslrootcert, sslcert and sslkey as
// PostgreSQL's own clients have them. What the address leaves out comes from the environment, such as PGPASSWORD and
// PGSSLMODE. The mode and the layout of an address are for [driver.Open].
func Open(ctx context.Context, a *driver.Address) (*Driver, error) {
	t, err := newTables(a.Param("schema", ""), a.Param("prefix", ""))
	if err != nil {
		return nil, err
	}
	l, err := link.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	return start(ctx, l, t)
}
