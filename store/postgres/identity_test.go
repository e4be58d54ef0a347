package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

func identityOf(t testing.TB, d *Driver) string {
	t.Helper()
	id, err := d.Identity(timely(t))
	if err != nil || id == "" {
		t.Fatalf("identity = %q, %v; want an id", id, err)
	}
	return id
}

// The error names the missing right of a user who may not make the table. If the table exists, the user needs only the right
// to read it.
func TestIdentityRights(t *testing.T) {
	t.Parallel()
	pool, s := connect(t, server), schema()
	owner := open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s)
	user := "u_" + s
	there := strings.NewReplacer("stile.", `"`+s+`".`, "SCHEMA stile", `SCHEMA "`+s+`"`, "locks", user)
	exec(t, pool, there.Replace(`CREATE ROLE locks LOGIN PASSWORD 'pw'; GRANT USAGE ON SCHEMA stile TO locks;
GRANT SELECT, INSERT, UPDATE, DELETE ON stile.stile_name, stile.stile_claim TO locks;
GRANT SELECT, UPDATE ON stile.stile_meta TO locks`), asText)
	d := open(t, "postgres://"+user+":pw@"+server.Addr+"/postgres?schema="+s)
	ask := func() error { _, err := d.Identity(timely(t)); return err }

	err := ask()
	says(t, err, `the table "`+s+`".stile_id`, "for want of the right CREATE", "stile migrate --print", "GRANT SELECT", user)
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("without the table: %v; want ErrUnsupported", err)
	}
	text, err := Schema(s, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second leaves the id unchanged
		exec(t, pool, text, asText)
	}
	id := identityOf(t, owner)
	exec(t, pool, text, asText)
	if err := ask(); errors.Is(err, driver.ErrUnsupported) { // there is an id, which others use
		t.Errorf("without the right to read: %v; want a refusal", err)
	} else {
		says(t, err, "permission denied for table stile_id")
		marks(t, err, true, false)
	}
	exec(t, pool, there.Replace("GRANT SELECT ON stile.stile_id TO locks"))
	if got := identityOf(t, d); got != id {
		t.Errorf("the id is %q; want that of the owner, %q", got, id)
	}
	exec(t, pool, there.Replace("DELETE FROM stile.stile_id"))
	says(t, ask(), "permission denied for table stile_id")
	if again := identityOf(t, owner); again == id || identityOf(t, d) != again {
		t.Errorf("after the table was emptied: %q, and was %q; want another, and one", again, id)
	}
	if owner.revision != schemaRevision || open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s).revision != schemaRevision {
		t.Error("the table of the id has changed the revision")
	}
}

func TestIdentityForeign(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	for what, change := range map[string]string{
		"another table": "CREATE TABLE {id} (one integer, name text)",
		"nothing":       "CREATE TABLE {id} (one integer, id text); INSERT INTO {id} VALUES (1, NULL)",
		"empty":         "CREATE TABLE {id} (one integer PRIMARY KEY, id text); INSERT INTO {id} VALUES (1, '')",
		"two lines":     "CREATE TABLE {id} (one integer PRIMARY KEY, id text); INSERT INTO {id} VALUES (1, E'a\\nb')",
		"too long":      "CREATE TABLE {id} (one integer PRIMARY KEY, id text); INSERT INTO {id} VALUES (1, repeat('a', 300))",
	} {
		d := open(t, fresh(server))
		exec(t, pool, strings.ReplaceAll(change, "{id}", d.identityTable()), asText)
		if id, err := d.Identity(timely(t)); !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), d.identityTable()) {
			t.Errorf("%s: %q, %v; want ErrForeign and the table", what, id, err)
		}
	}
}

// drawing lets a client draw an id while another client's table is not committed, and returns when the first waits for it.
func drawing(t *testing.T, d *Driver) (other pgx.Tx, drawn <-chan func() (string, error)) {
	t.Helper()
	pool := connect(t, server)
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := other.Exec(t.Context(), d.tables.fill(identityText+drawIdentity), asText); err != nil {
		t.Fatal(err)
	}
	answer := make(chan func() (string, error), 1)
	go func() {
		id, err := d.Identity(timely(t))
		answer <- func() (string, error) { return id, err }
	}()
	servertest.Until(t, "the client waits for the other", func() bool {
		var waits bool
		scan(t, pool, &waits, "SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.wait_event_type = 'Lock' AND a.query LIKE '%' || $1 || '%')",
			d.tables.schema)
		return waits
	})
	return other, answer
}

// IF NOT EXISTS does not see an uncommitted table, and fails when it is committed.
func TestIdentityMadeMeanwhile(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	other, drawn := drawing(t, d)
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := (<-drawn)()
	if want := identityOf(t, d); err != nil || id != want {
		t.Errorf("identity = %q, %v; want that of the other, %q", id, err, want)
	}
}

// The answer to the request that draws is lost. Then the id is read.
func TestIdentityReplyLost(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	url := fresh(server)
	d, direct := open(t, strings.Replace(url, server.Addr, proxy.Addr, 1)), open(t, url)
	other, drawn := drawing(t, d)
	proxy.Freeze(false, true)
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var id string
	servertest.Until(t, "the id is drawn", func() (kept bool) {
		id, _ = direct.readIdentity(timely(t))
		return id != ""
	})
	proxy.Drop()
	if got, err := (<-drawn)(); err != nil || got != id {
		t.Errorf("identity = %q, %v; want %q", got, err, id)
	}
}

// A server that has become read-only cannot draw an id. This does not mean that it keeps none.
func TestIdentityReadOnly(t *testing.T) {
	t.Parallel()
	config := connect(t, server).Config()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d, err := New(timely(t), pool, &Options{Schema: schema()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	config = config.Copy()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	reads, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	standby := &Driver{link: link.New(reads), tables: d.tables}
	defer standby.link.Close()
	_, err = standby.Identity(timely(t))
	says(t, err, "postgres is read-only here")
	marks(t, err, true, true)
	if id, got := identityOf(t, d), identityOf(t, standby); got != id {
		t.Errorf("read-only, the id is %q; want %q", got, id)
	}
}

// The row of the id is deleted while a joined lock is held.
func TestIdentityLost(t *testing.T) {
	t.Parallel()
	pool, first, second := connect(t, server), schema(), schema()
	at := func(schema string) string { return "postgres://postgres@" + server.Addr + "/postgres?schema=" + schema }
	lose := func(schema string) func() { return func() { exec(t, pool, `DELETE FROM "`+schema+`".stile_id`) } }
	drive.IdentityLost(t, [2]string{at(first), at(second)}, [2]func(){lose(first), lose(second)})
}
