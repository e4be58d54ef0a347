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
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

//go:embed schema.sql
var schemaText string

// The version and revision of schema.sql. Clients of one version work with tables of every revision of it, so that programs
// can be upgraded one by one: the first client of a new revision upgrades the tables, and older clients go on with them. Any
// change of schema.sql makes another revision, or, if older clients could not work with it, another version.
const (
	amendRevision = 3 // the first that can change a claim in its place
	groupRevision = 6 // the first whose statements take claims of many names

	schemaVersion  = 1
	schemaRevision = 6
)

const (
	// DefaultSchema is the schema of the tables.
	DefaultSchema = "stile"

	// DefaultPrefix begins the names of tables and functions.
	DefaultPrefix = "stile_"
)

// tables are the tables of one set of locks, by their schema and the beginning of their names, both checked.
type tables struct{ schema, prefix string }

// The characters of a quoted name: none may end a quote or a function's body.
var (
	goodSchema = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`) })
	goodPrefix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`) })
)

func newTables(schema, prefix string) (tables, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if !goodSchema().MatchString(schema) {
		return tables{}, driver.Refused(errors.New("the schema must be up to 63 letters, digits, _ and -, " +
			"and begin with a letter or _"))
	}
	if !goodPrefix().MatchString(prefix) {
		return tables{}, driver.Refused(errors.New("the prefix must be up to 32 small letters, digits and _, " +
			"and begin with no digit"))
	}
	return tables{schema, prefix}, nil
}

// fill puts the names of the tables into a text.
func (t tables) fill(text string) string {
	return strings.NewReplacer(
		"{schema}", t.schema, "{prefix}", t.prefix, "{channel}", t.channel(),
		"{version}", strconv.Itoa(schemaVersion), "{revision}", strconv.Itoa(schemaRevision),
	).Replace(text)
}

// hash is the same in all clients of the same tables.
func (t tables) hash() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q", t.schema, t.prefix)
	return h.Sum64()
}

// channel returns the channel for changes of watched queues. Channels belong to the database, not to a schema.
func (t tables) channel() string { return fmt.Sprintf("stile_watch_%016x", t.hash()) }

// Schema returns the SQL that makes the tables and functions of locks, for databases whose users may not make their own. It
// also upgrades the tables of an older stile while they are in use. It may be run again. The user who runs it owns them; the
// package documentation has the rights that other users need. An empty schema or prefix means the default. The error says
// why a schema or prefix cannot be used.
func Schema(schema, prefix string) (string, error) {
	t, err := newTables(schema, prefix)
	if err != nil {
		return "", err
	}
	return t.fill("BEGIN;\n\nCREATE SCHEMA IF NOT EXISTS \"{schema}\";\n\n" + schemaText + "\n" + identityText + drawIdentity + "\nCOMMIT;\n"), nil
}

// prepare makes the tables unless they exist, and upgrades them. Many processes may do so at once. If the user may not
// change the tables, or others keep them locked, tables of an older revision are used as they are.
func (d *Driver) prepare(ctx context.Context) error {
	v, err := d.version(ctx, d.link.Pool())
	if err == nil && v.revision < schemaRevision && v.version <= schemaVersion {
		if failed := d.create(ctx); failed == nil || !v.exists {
			err = failed
		}
		if err == nil {
			v, err = d.version(ctx, d.link.Pool())
		}
	}
	d.revision = v.revision
	switch {
	case err != nil:
		return err
	case v.version > schemaVersion:
		return driver.Refused(fmt.Errorf("schema %q was made by a newer stile: its version is %d, this one knows %d",
			d.tables.schema, v.version, schemaVersion))
	case v.version < schemaVersion:
		return driver.Refused(fmt.Errorf("schema %q was made by an older stile: its version is %d, this one needs %d",
			d.tables.schema, v.version, schemaVersion))
	}
	return nil
}

// A version is the version of tables, if there are any.
type version struct {
	exists            bool
	version, revision int
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the tables.
func (d *Driver) version(ctx context.Context, q querier) (v version, err error) {
	// Not to_regclass: in a transaction that has waited for the maker of the table, it answers by its earlier knowledge.
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname = $2::text)`, link.Plain, d.tables.schema, d.tables.prefix+"meta").Scan(&v.exists)
	if err != nil || !v.exists {
		return version{}, d.link.Explain(ctx, err)
	}
	table := d.tables.fill(`"{schema}".{prefix}meta`)
	err = q.QueryRow(ctx, "SELECT m.version, coalesce((to_jsonb(m) ->> 'revision')::int, 1) FROM "+table+" m", link.Plain).
		Scan(&v.version, &v.revision)
	refusal, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return v, driver.Refused(link.ErrEmptied)
	case refusal != nil && refusal.Code == "42703": // no such column
		return v, fmt.Errorf("%w: table %s", driver.ErrForeign, table)
	}
	return v, d.link.Explain(ctx, err)
}

// upgradeWithin bounds the upgrade's wait for the users of the tables: new requests wait behind it.
const upgradeWithin = time.Second

// turnAgain is the pause of a client that waits for its turn to make tables.
const turnAgain = 20 * time.Millisecond

// takeTurn waits until a transaction has a key, in short statements: a statement that waits in the server keeps its
// snapshot, which delays VACUUM and CREATE INDEX CONCURRENTLY of others.
func (d *Driver) takeTurn(ctx context.Context, tx pgx.Tx, key int64) error {
	// An extended query would keep its portal, and so its snapshot, until the next.
	const tryTurn = "SELECT pg_try_advisory_xact_lock($1)"
	for got := false; ; {
		if err := tx.QueryRow(ctx, tryTurn, pgx.QueryExecModeSimpleProtocol, key).Scan(&got); err != nil || got {
			return d.link.Explain(ctx, err)
		}
		select {
		case <-time.After(turnAgain):
		case <-ctx.Done():
			return driver.Ended(ctx, true)
		}
	}
}

// create makes or upgrades the tables. If another client does so at the same time, create waits for it.
func (d *Driver) create(ctx context.Context) error {
	tx, err := d.link.Pool().Begin(ctx)
	if err != nil {
		return d.link.Explain(ctx, err)
	}
	// Without effect after the commit.
	defer func() { _ = tx.Rollback(ctx) }()
	for _, turn := range []tables{{schema: d.tables.schema}, d.tables} { // a turn for the schema, one for its tables
		if err := d.takeTurn(ctx, tx, int64(turn.hash())); err != nil {
			return err
		}
	}
	v, err := d.version(ctx, tx)
	if err != nil || v.revision >= schemaRevision {
		return err
	}
	timeout := strconv.FormatInt(upgradeWithin.Milliseconds(), 10)
	if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1::text, true)", link.Plain, timeout); err != nil {
		return d.link.Explain(ctx, err)
	}
	var exists bool
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)", link.Plain, d.tables.schema).
		Scan(&exists)
	if err != nil {
		return d.link.Explain(ctx, err)
	}
	text := d.tables.fill(schemaText)
	if !exists { // checked first, since IF NOT EXISTS needs the right to make a schema even if it exists
		text = d.tables.fill("CREATE SCHEMA \"{schema}\";\n") + text
	}
	if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "42501" {
			return driver.Refused(fmt.Errorf("the user may not make the tables of locks: "+
				"have their owner run what \"stile migrate --print\" prints (%s)", refusal.Message))
		}
		return d.link.Explain(ctx, err)
	}
	return d.link.Explain(ctx, tx.Commit(ctx))
}
