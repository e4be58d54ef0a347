package postgres

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// revision1 is schema.sql as its first revision was.
//
//go:embed testdata/schema_1.sql
var revision1 string

// oldClaim has an old client's arguments after names and ids: exclusive, for ten minutes.
const oldClaim = `'old', '', '', '', 2147483647, 2147483647, 600000000, 600000000, 0, 0, 0, false, false`

// older makes a schema of the first revision, with a claim that holds and one that waits.
func older(t *testing.T) tables {
	t.Helper()
	p := tables{schema(), DefaultPrefix}
	pool := connect(t, server)
	exec(t, pool, p.fill(`CREATE SCHEMA "{schema}";`+revision1), asText)
	for _, id := range []string{"holds", "waits"} {
		exec(t, pool, p.fill(`SELECT "{schema}".{prefix}do('enter', 'name', $1::text::bytea, `+oldClaim+`)`), id)
	}
	return p
}

func (t tables) url(user string) string {
	return "postgres://" + user + "@" + server.Addr + "/postgres?schema=" + t.schema
}

// The first client of a new revision upgrades tables of the first revision while old clients use them. Claims stay, each
// client finds the others' claims, and an old client can still start.
func TestUpgradeBesideOldClients(t *testing.T) {
	t.Parallel()
	p := older(t)
	pool := connect(t, server)
	const old = `SELECT status, holds FROM "{schema}".{prefix}do($1, 'name', $2::text::bytea, ` + oldClaim + `)`
	said := func(verb, id string) (says string) {
		t.Helper()
		var (
			status string
			holds  bool
		)
		if err := pool.QueryRow(t.Context(), p.fill(old), link.Plain, verb, id).Scan(&status, &holds); err != nil {
			t.Fatalf("an old client: %s %s: %v", verb, id, err)
		}
		return fmt.Sprint(status, " ", holds)
	}
	if got := said("renew", "holds"); got != "ok true" {
		t.Fatalf("before: %s", got)
	}
	var all sync.WaitGroup
	for range 4 { // at once
		all.Go(func() {
			d, err := driver.Open(timely(t), p.url("postgres"))
			if err != nil {
				t.Error(err)
				return
			}
			d.Close()
		})
	}
	all.Wait()
	d := open(t, p.url("postgres"))
	if d.revision != schemaRevision || strings.Contains(strings.Join(d.Traits().Remarks(), "\n"), "older stile") {
		t.Errorf("the revision is %d, with notes %q; want %d", d.revision, d.Traits().Remarks(), schemaRevision)
	}
	c := claim("name", "new")
	if got := enter(t, d, c); got.Holds || got.Ahead != 2 {
		t.Errorf("a new client enters with %+v; want it behind 2", got)
	}
	for _, step := range []struct{ verb, id, want string }{
		{"renew", "holds", "ok true"}, {"renew", "waits", "ok false"}, {"leave", "holds", "ok false"},
		{"renew", "waits", "ok true"}, {"leave", "waits", "ok false"},
	} {
		if got := said(step.verb, step.id); got != step.want {
			t.Errorf("an old client: %s %s = %s; want %s", step.verb, step.id, got, step.want)
		}
	}
	if p := enter(t, d, c); !p.Holds {
		t.Errorf("the new client's place is %+v; want it to hold", p)
	}
	var version int
	scan(t, pool, &version, p.fill(`SELECT version FROM "{schema}".{prefix}meta`)) // as an old client does at its start
	if version != 1 {
		t.Errorf("the version is %d; want 1", version)
	}
	exec(t, pool, p.fill(`SELECT "{schema}".{prefix}clean(1000, 10)`))
}

// A user who may not change the tables works with tables of the older revision, and the traits say whom to ask.
func TestOlderTablesWithoutRights(t *testing.T) {
	t.Parallel()
	p := older(t)
	pool := connect(t, server)
	user := "u_" + p.schema
	exec(t, pool, "CREATE ROLE "+user+" LOGIN PASSWORD 'pw'", asText)
	exec(t, pool, p.fill(`GRANT USAGE ON SCHEMA "{schema}" TO `+user+`;
GRANT SELECT, INSERT, UPDATE, DELETE ON "{schema}".{prefix}name, "{schema}".{prefix}claim TO `+user+`;
GRANT SELECT, UPDATE ON "{schema}".{prefix}meta TO `+user), asText)
	d := open(t, p.url(user+":pw"))
	notes := strings.Join(d.Traits().Remarks(), "\n")
	if !strings.Contains(notes, "older stile") || !strings.Contains(notes, "migrate --print") {
		t.Errorf("the notes are %q; want that the tables are older", notes)
	}
	c := claim("other", "c")
	enter(t, d, c)
	amended := *c
	amended.Amend = &driver.Amendment{Weight: 1}
	if err := d.Renew(timely(t), []*driver.Claim{&amended})[0].Err; d.Traits().Amends || !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("an amendment = %v, and the traits have it: %v; want ErrUnsupported, and not", err, d.Traits().Amends)
	}
	leave(t, d, c)
	if n, err := d.due(timely(t), cleanEvery); err != nil || n > 0 {
		t.Errorf("cleaning = %d, %v; want that nothing is idle", n, err)
	}
	text, err := Schema(p.schema, "")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, text, asText)
	if later := open(t, p.url(user+":pw")); later.revision != schemaRevision {
		t.Errorf("after what is printed was run the revision is %d", later.revision)
	}
}

// The output of "migrate --print" can be run twice, and does not change tables of a newer stile.
func TestSchemaTwice(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	s := schema()
	text, err := Schema(s, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		exec(t, pool, text, asText)
	}
	p := tables{s, DefaultPrefix}
	d := open(t, p.url("postgres"))
	enter(t, d, claim("name", "c"))
	exec(t, pool, text, asText)
	for change, want := range map[string]string{
		fmt.Sprint("UPDATE {meta} SET revision = ", schemaRevision+1): "made by another version",
		fmt.Sprint("UPDATE {meta} SET version = ", schemaVersion+1):   "made by another version",
		"DELETE FROM {meta}": "was emptied",
	} {
		exec(t, pool, strings.ReplaceAll(change, "{meta}", p.fill(`"{schema}".{prefix}meta`)))
		if _, err := pool.Exec(t.Context(), text, asText); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %s: %v; want %q", change, err, want)
		}
		exec(t, pool, p.fill(`DELETE FROM "{schema}".{prefix}meta;
INSERT INTO "{schema}".{prefix}meta (one, version, floor, revision) VALUES (1, 1, 0, 4)`), asText)
	}
}
