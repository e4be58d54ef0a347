package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
)

//go:embed schema.sql
var schemaText string

// schemaVersion is that of what schema.sql makes. Whatever changes in it makes another version.
const schemaVersion = 1

const (
	// DefaultSchema is the schema that the tables are in.
	DefaultSchema = "stile"

	// DefaultPrefix is what the names of tables and functions begin with.
	DefaultPrefix = "stile_"
)

// A place is where in a database the tables are. Its parts have been checked.
type place struct{ schema, prefix string }

// What may be in a name that is quoted: nothing that ends a quote or a function's body.
var (
	goodSchema = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)
	goodPrefix = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)
)

func newPlace(schema, prefix string) (place, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if !goodSchema.MatchString(schema) {
		return place{}, driver.Refused(errors.New("the schema must be up to 63 letters, digits, _ and -, and begin with a letter or _"))
	}
	if !goodPrefix.MatchString(prefix) {
		return place{}, driver.Refused(errors.New("the prefix must be up to 32 small letters, digits and _, and begin with no digit"))
	}
	return place{schema, prefix}, nil
}

// fill puts the place into a text.
func (p place) fill(text string) string {
	return strings.NewReplacer(
		"{schema}", p.schema, "{prefix}", p.prefix, "{version}", strconv.Itoa(schemaVersion), "{channel}", p.channel(),
	).Replace(text)
}

// hash is the same for the same place everywhere.
func (p place) hash() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q", p.schema, p.prefix)
	return h.Sum64()
}

// channel is where changes of watched queues are told. Channels belong to the database, not to a schema.
func (p place) channel() string { return fmt.Sprintf("stile_watch_%016x", p.hash()) }

// Schema returns the SQL that makes the tables and functions of locks, for databases whose users may not make their own.
// Whoever runs it owns them; the package documentation has the rights that other users need. An empty schema or prefix
// means the default. The error says why a schema or prefix cannot be used.
func Schema(schema, prefix string) (string, error) {
	p, err := newPlace(schema, prefix)
	if err != nil {
		return "", err
	}
	return "BEGIN;\n\nCREATE SCHEMA IF NOT EXISTS \"" + p.schema + "\";\n\n" + p.fill(schemaText) + "\nCOMMIT;\n", nil
}

// prepare makes the tables unless they are there. Many processes may do so at once.
func (d *Driver) prepare(ctx context.Context) error {
	version, exists, err := d.version(ctx, d.pool)
	if err == nil && !exists {
		if err = d.create(ctx); err == nil {
			version, _, err = d.version(ctx, d.pool)
		}
	}
	switch {
	case err != nil:
		return err
	case version > schemaVersion:
		return driver.Refused(fmt.Errorf("schema %q was made by a newer stile: its version is %d, this one knows %d", d.place.schema, version, schemaVersion))
	case version < schemaVersion:
		return driver.Refused(fmt.Errorf("schema %q was made by an older stile: its version is %d, this one needs %d", d.place.schema, version, schemaVersion))
	}
	return nil
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the tables, and whether there are any.
func (d *Driver) version(ctx context.Context, q querier) (version int, exists bool, err error) {
	// Not to_regclass: in a transaction that has waited for whoever made the table, it answers what it knew before.
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname = $2::text)`, plain, d.place.schema, d.place.prefix+"meta").Scan(&exists)
	if err != nil || !exists {
		return 0, false, d.explain(ctx, err)
	}
	table := d.place.fill(`"{schema}".{prefix}meta`)
	err = q.QueryRow(ctx, "SELECT version FROM "+table, plain).Scan(&version)
	refusal, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = errEmptied
	case refusal != nil && refusal.Code == "42703": // no such column
		return 0, true, fmt.Errorf("%w: table %s", driver.ErrForeign, table)
	}
	return version, true, d.explain(ctx, err)
}

// create makes the tables, unless somebody else does so at the same time: that is waited for.
func (d *Driver) create(ctx context.Context) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return d.explain(ctx, err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", plain, int64(d.place.hash())); err != nil {
		return d.explain(ctx, err)
	}
	if _, exists, err := d.version(ctx, tx); err != nil || exists {
		return err
	}
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)", plain, d.place.schema).Scan(&exists); err != nil {
		return d.explain(ctx, err)
	}
	text := d.place.fill(schemaText)
	if !exists { // asked for first, since IF NOT EXISTS needs the right to make one even if there is one
		text = d.place.fill("CREATE SCHEMA \"{schema}\";\n") + text
	}
	if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "42501" {
			return driver.Refused(fmt.Errorf("the user may not make the tables of locks: have their owner run what \"stile migrate --print\" prints (%s)", refusal.Message))
		}
		return d.explain(ctx, err)
	}
	return d.explain(ctx, tx.Commit(ctx))
}
