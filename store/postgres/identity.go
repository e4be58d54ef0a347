package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

//go:embed identity.sql
var identityText string

const (
	// readIdentity reads any table in the place of the id's.
	readIdentity = `SELECT left(id::text, 256) FROM "{schema}".{prefix}id WHERE one = 1`

	// drawIdentity draws an id unless there is one. Even an old server can do so: random() is seeded for each session, from
	// the system's source.
	drawIdentity = `INSERT INTO "{schema}".{prefix}id (one, id)
VALUES (1, md5(concat_ws(' ', random(), random(), clock_timestamp(), pg_backend_pid(), txid_current())))
ON CONFLICT (one) DO NOTHING;
`

	// keepIdentity writes the id to the disk before anybody sees it, whatever the default is.
	keepIdentity = `PERFORM CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
THEN set_config('synchronous_commit', 'on', true) END;
`
)

// SQLSTATEs about the table of the id.
const (
	noTable  = "42P01"
	noColumn = "42703"
	noRight  = "42501"
)

// raced are the errors for a table that another client makes at the same moment, even with IF NOT EXISTS, or has been making
// for a while.
var raced = []string{"23505", "42P07", "42710", "55P03"}

// identityAttempts bounds how often the id is read, and drawn if there is none.
const identityAttempts = 4

// Identity is [driver.Identifier.Identity]. The id is in a table of its own, which the first call makes. Each call reads it:
// a standby that was behind when it took over may have another id.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	var failed error
	for range identityAttempts {
		id, err := d.readIdentity(ctx)
		missing := link.Code(err) == noTable
		switch {
		case id != "" || err != nil && !missing:
			return id, err
		case missing && errors.Is(failed, driver.ErrUnsupported):
			return "", failed // and no other client has made the table meanwhile
		}
		failed = d.draw(ctx, missing)
		if failed != nil && !readsAgain(failed) {
			return "", failed
		}
	}
	if failed == nil {
		failed = fmt.Errorf("%w: table %s does not keep what is inserted", driver.ErrForeign, d.identityTable())
	}
	return "", failed
}

// readsAgain reports whether there may be an id although this client failed to draw one: another client may have made the
// table, or the outcome of the request is unknown.
func readsAgain(failed error) bool {
	return !driver.NotApplied(failed) || errors.Is(failed, driver.ErrUnsupported) || slices.Contains(raced, link.Code(failed))
}

func (d *Driver) identityTable() string { return d.tables.fill(`"{schema}".{prefix}id`) }

// readIdentity returns the id, or "" if the table has none.
func (d *Driver) readIdentity(ctx context.Context) (string, error) {
	var id *string
	found := false
	err := d.link.Query(ctx, d.tables.fill(readIdentity), nil, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(&id)
	})
	switch {
	case link.Code(err) == noColumn:
		return "", fmt.Errorf("%w: table %s", driver.ErrForeign, d.identityTable())
	case err != nil || !found:
		return "", err
	case id == nil:
		return "", fmt.Errorf("%w: table %s has no value", driver.ErrForeign, d.identityTable())
	case driver.CheckName(*id) != nil:
		return "", fmt.Errorf("%w: table %s has the value %.20q, which stile did not set", driver.ErrForeign, d.identityTable(), *id)
	}
	return *id, nil
}

// draw draws an id unless there is one, and first makes the table if it is missing. It is one statement, so one transaction,
// through a pooler too. Clients that make tables take turns, since two that make the same table would block each other.
func (d *Driver) draw(ctx context.Context, missing bool) error {
	steps := keepIdentity
	if missing { // read first, since IF NOT EXISTS needs the right to make a table even if it exists
		steps += fmt.Sprintf("PERFORM set_config('lock_timeout', '%d', true);\nPERFORM pg_advisory_xact_lock(%d);\n",
			upgradeWithin.Milliseconds(), int64(d.tables.hash())) + identityText
	}
	statement := d.tables.fill("DO $stile$ BEGIN\n" + steps + drawIdentity + "END $stile$")
	err := d.link.Query(ctx, statement, []any{link.Plain}, func(pgx.Rows) error { return nil })
	if missing && link.Code(err) == noRight {
		return fmt.Errorf("%w: the table %s of the store's id is missing, and user %q may not make it, for want of the right CREATE on "+
			"the schema: have the owner run what \"stile migrate --print\" prints, and GRANT SELECT on the table",
			driver.ErrUnsupported, d.identityTable(), d.link.User())
	}
	return err
}
