package mysql

import (
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
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
	name := database(t, server)
	user := "u" + name[5:20]
	db := raw(t, server, name)
	owner := open(t, "mysql://root@"+server.Addr+"/"+name)
	mustExec(t, db, "CREATE USER "+user+"; GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO "+user)
	d := open(t, "mysql://"+user+"@"+server.Addr+"/"+name)
	ask := func() error { _, err := d.Identity(timely(t)); return err }

	err := ask()
	says(t, err, "the table stile_id", "for want of the right CREATE", "stile migrate --print", "GRANT SELECT", user)
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("without the table: %v; want ErrUnsupported", err)
	}
	mustExec(t, db, "REVOKE ALL, GRANT OPTION FROM "+user+"; GRANT SELECT, UPDATE ON stile_meta TO "+user)
	for _, table := range []string{"name", "claim", "tx"} {
		mustExec(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON stile_"+table+" TO "+user)
	}
	d = open(t, "mysql://"+user+"@"+server.Addr+"/"+name)
	for _, there := range []bool{false, true} { // the server does not distinguish the two
		if err := ask(); errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("without the right to read, a table %v: %v; want a refusal", there, err)
		} else {
			says(t, err, "SELECT command denied", "stile_id", "stile migrate --print", "GRANT SELECT")
			marks(t, err, true, false)
		}
		text, err := Schema("")
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, text)
	}
	id := identityOf(t, owner)
	mustExec(t, db, "GRANT SELECT ON stile_id TO "+user)
	if got := identityOf(t, d); got != id {
		t.Errorf("the id is %q; want that of the owner, %q", got, id)
	}
	mustExec(t, db, "DELETE FROM stile_id")
	says(t, ask(), "INSERT command denied", "stile_id")
	if again := identityOf(t, owner); again == id || identityOf(t, d) != again {
		t.Errorf("after the table was emptied: %q, and was %q; want another, and one", again, id)
	}
}

func TestIdentityForeign(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]string{
		"another table": "CREATE TABLE stile_id (one INT, name TEXT)",
		"nothing":       "CREATE TABLE stile_id (one INT, id TEXT); INSERT INTO stile_id VALUES (1, NULL)",
		"empty":         "CREATE TABLE stile_id (one INT, id TEXT); INSERT INTO stile_id VALUES (1, '')",
		"two lines":     "CREATE TABLE stile_id (one INT, id TEXT); INSERT INTO stile_id VALUES (1, 'a\\nb')",
		"too long":      "CREATE TABLE stile_id (one INT, id TEXT); INSERT INTO stile_id VALUES (1, REPEAT('a', 300))",
	} {
		name := database(t, server)
		d := open(t, "mysql://root@"+server.Addr+"/"+name)
		mustExec(t, raw(t, server, name), change)
		if id, err := d.Identity(timely(t)); !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), "table stile_id") {
			t.Errorf("%s: %q, %v; want ErrForeign and the table", what, id, err)
		}
	}
}

// The answer to the request that draws is lost. Then the id is read.
func TestIdentityReplyLost(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	name := database(t, server)
	direct, d := open(t, "mysql://root@"+server.Addr+"/"+name), open(t, "mysql://root@"+proxy.Addr+"/"+name)
	db := raw(t, server, name)
	identityOf(t, direct)
	other, err := db.BeginTx(timely(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	mustExec(t, db, "DELETE FROM stile_id")
	if _, err := other.ExecContext(timely(t), "INSERT INTO stile_id VALUES (1, 'never')"); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		id  string
		err error
	}
	drawn := make(chan answer, 1)
	go func() {
		id, err := d.Identity(timely(t))
		drawn <- answer{id, err}
	}()
	servertest.Until(t, "the client waits for the other's row", func() (waits bool) {
		err := db.QueryRowContext(timely(t), "SELECT EXISTS (SELECT 1 FROM information_schema.PROCESSLIST "+
			"WHERE DB = ? AND INFO LIKE 'INSERT IGNORE%stile_id%')", name).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	})
	proxy.Freeze(false, true)
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	var id string
	servertest.Until(t, "the id is drawn", func() bool {
		read, state, err := direct.store.readIdentity(timely(t))
		id = read
		return err == nil && state == idKept
	})
	proxy.Drop()
	if got := <-drawn; got.err != nil || got.id != id {
		t.Errorf("identity = %q, %v; want %q", got.id, got.err, id)
	}
}
