package postgres

import (
	"context"
	"errors"
	"github.com/stilelock/stile/internal/awake"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	at := "postgres://postgres@" + server.Addr + "/postgres?"
	long := strings.Repeat("s", 64)
	for url, want := range map[string]string{
		at + "shcema=x":                               `unknown parameter "shcema" for postgres://; did you mean schema?; known: `,
		at + "schema=a%22b":                           "the schema must be",
		at + "schema=1a":                              "the schema must be",
		at + "schema=a$stile$":                        "the schema must be",
		at + "schema=" + long:                         "the schema must be",
		at + "prefix=A":                               "the prefix must be",
		at + "prefix=a%22%3b":                         "the prefix must be",
		at + "dial_timeout=5":                         "parameter dial_timeout must be a duration",
		at + "pool_max_conns=0":                       "parameter pool_max_conns must be a number from 1",
		at + "pool_max_conns=many":                    "parameter pool_max_conns must be a number from 1",
		at + "sslmode=always":                         "sslmode is invalid",
		at + "sslrootcert=/no/such&sslmode=verify-ca": "no such file",
		"postgres://postgres@" + server.Addr + "/no_such_base":                "postgres has no such database",
		"postgresql://nobody_here@" + server.Addr + "/postgres":               `does not let user "nobody_here" in`,
		"postgres://nobody_here:hunter2@" + server.Addr + "/x":                `does not let user "nobody_here" in`,
		"postgres://nobody_here:hunter2@" + server.Addr + "/x?sslmode=always": "sslmode is invalid",
	} {
		err := refuses(t, url, want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error has the password: %v", err)
		}
		marks(t, err, true, false)
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	exec(t, pool, "CREATE ROLE keeper LOGIN PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO keeper", asText)
	at := "@" + server.Addr + "/postgres?schema=" + schema()
	err := refuses(t, "postgres://keeper:hunter2"+at, `postgres does not let user "keeper" in with this password`, "28P01")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error has the password: %v", err)
	}
	marks(t, err, true, false)
	enter(t, open(t, "postgres://keeper:right"+at), claim("name", "a"))
}

// Where nothing listens, hangs up or never answers, connecting ends with the context and with dial_timeout.
// inLatin1 returns the URL of a database of another encoding than ours.
func inLatin1(t *testing.T, params ...string) string {
	t.Helper()
	name := schema()
	exec(t, connect(t, server), "CREATE DATABASE "+name+" ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0", asText)
	return "postgres://postgres@" + server.Addr + "/" + name + "?" + strings.Join(params, "&")
}

// The encoding of the database does not matter.
func TestOtherEncoding(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"rows", "session"} {
		d := opener(inLatin1(t, "mode="+mode))(t)
		t.Cleanup(func() { d.Close() })
		a, b := claim("ä火", "ä"), claim("a火", "b")
		enter(t, d, a)
		if p := enter(t, d, b); !p.Holds {
			t.Errorf("%s: a name is taken for another: %+v", mode, p)
		}
		leave(t, d, a)
	}
}

func TestConnectingEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	at := "postgres://u:hunter2@" + l.Addr().String() + "/db"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := driver.Open(ctx, at+"?dial_timeout=1m")
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("open succeeds")
		}
	case <-awake.For(30 * time.Second):
		t.Fatal("open outlives its context")
	}
	marks(t, refuses(t, at+"?dial_timeout=100ms", "cannot connect to postgres at "+l.Addr().String(), "timeout"), true, true)
	l.Close()
	marks(t, refuses(t, at, "cannot connect to postgres at "+l.Addr().String(), "refused"), true, true)
}

// Many processes may make the tables at once.
func TestCreatedAtOnce(t *testing.T) {
	t.Parallel()
	url := fresh(server, "prefix=l_")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d, err := driver.Open(timely(t), url)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			d.Close()
		})
	}
	all.Wait()
}

func TestForeignTables(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	for what, test := range map[string]struct{ change, want string }{
		"newer":   {"UPDATE stile_meta SET version = 2", "made by a newer stile: its version is 2, this one knows 1"},
		"older":   {"UPDATE stile_meta SET version = 0", "was made by an older stile"},
		"emptied": {"DELETE FROM stile_meta", "the tables of locks were emptied"},
		"foreign": {"ALTER TABLE stile_meta RENAME COLUMN version TO other", "holds a value that is not stile's: table"},
	} {
		t.Run(what, func(t *testing.T) {
			s := schema()
			url := "postgres://postgres@" + server.Addr + "/postgres?schema=" + s
			open(t, url)
			exec(t, pool, strings.ReplaceAll(test.change, "stile_meta", `"`+s+`".stile_meta`))
			marks(t, refuses(t, url, test.want), true, false)
		})
	}
}

// A user who may not make tables gets an error with the necessary step, and the documented rights are enough for the rest.
func TestRights(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	s := schema()
	exec(t, pool, "CREATE ROLE locks LOGIN PASSWORD 'pw'", asText)
	url := "postgres://locks:pw@" + server.Addr + "/postgres?schema=" + s
	err := refuses(t, url, "the user may not make the tables of locks", "stile migrate --print", "permission denied")
	marks(t, err, true, false)
	text, err := Schema(s, "")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, text, asText)
	marks(t, refuses(t, url, `does not let user "locks" do this`, "lists the rights"), true, false)
	there := strings.NewReplacer("SCHEMA stile", `SCHEMA "`+s+`"`, "stile.", `"`+s+`".`)
	exec(t, pool, there.Replace(`GRANT USAGE ON SCHEMA stile TO locks;
GRANT SELECT, INSERT, UPDATE, DELETE ON stile.stile_name, stile.stile_claim TO locks;
GRANT SELECT, UPDATE ON stile.stile_meta TO locks`), asText)
	exec(t, pool, `REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA "`+s+`" FROM PUBLIC`)
	_, err = open(t, url).Enter(timely(t), claim("name", "a"))
	says(t, err, `does not let user "locks" do this`, "lists the rights", "permission denied for function")
	exec(t, pool, `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "`+s+`" TO locks`)
	d := open(t, url)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	if err := renew(t, d, a); err != nil {
		t.Errorf("renew: %v", err)
	}
	if _, err := d.Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil {
		t.Errorf("break: %v", err)
	}
	await(t, d, b)
	leave(t, d, b)
	if n, err := d.clean(timely(t), 0, 10); n != 1 || err != nil {
		t.Errorf("clean = %d, %v; want 1", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := d.Watch(ctx, "name", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("watch: %v", err)
	}
	if list, err := d.List(timely(t), &driver.Query{}); len(list) != 0 || err != nil {
		t.Errorf("list = %v, %v", list, err)
	}
}

// The user's own pool serves as well, and is not closed.
func TestOwnPool(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	s := schema()
	d, err := New(t.Context(), pool, &Options{Schema: s, Prefix: "mine_"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)
	var n int
	scan(t, pool, &n, `SELECT count(*) FROM "`+s+`".mine_claim`)
	if n != 1 {
		t.Errorf("%d claims are in the table; want 1", n)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool is of no use after the driver was closed: %v", err)
	}
}

// A pool whose user has switched the cache of prepared statements off serves as well.
func TestOwnPoolWithoutCache(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "&default_query_exec_mode=exec"} {
		config, err := pgxpool.ParseConfig("postgres://postgres@" + server.Addr + "/postgres?statement_cache_capacity=0" + mode)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(timely(t), connectTo(t, config), &Options{Schema: schema()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		a, b := claim("name", "a"), claim("name", "b")
		enter(t, d, a)
		if err := renew(t, d, a); err != nil {
			t.Fatalf("renewal = %v; want nil", err)
		}
		enter(t, d, b)
		if list, err := d.List(timely(t), &driver.Query{}); len(list) != 1 || err != nil {
			t.Errorf("list = %v, %v; want one name", list, err)
		}
		listens(t, d, b)
		leave(t, d, a)
		await(t, d, b)
	}
}

// A pool whose connections are all in use is named as the reason, and in time.
func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	config := connect(t, server).Config()
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d, err := New(t.Context(), pool, &Options{Schema: schema()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{brief, t.Context()} {
		_, err = d.Enter(ctx, claim("name", "a"))
		says(t, err, "all 2 connections of the pool are in use (waited ")
		marks(t, err, true, true)
	}
}

// Transactions that are not read committed would see the queue as it was before they waited for their turn.
func TestIsolation(t *testing.T) {
	t.Parallel()
	config := connect(t, server).Config()
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	o := &Options{Schema: schema()}
	if _, err = New(t.Context(), pool, o); err == nil {
		t.Fatal("a pool with another isolation is accepted")
	}
	says(t, err, "the default isolation of transactions is repeatable read here")
	marks(t, err, true, false)
	var changed atomic.Bool // the default may change later
	config = connect(t, server).Config()
	config.PrepareConn = func(ctx context.Context, c *pgx.Conn) (bool, error) {
		if !changed.Load() {
			return true, nil
		}
		_, err := c.Exec(ctx, "SET default_transaction_isolation = 'repeatable read'")
		return err == nil, err
	}
	later, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	d, err := New(t.Context(), later, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	changed.Store(true)
	_, err = d.Enter(t.Context(), claim("name", "a"))
	says(t, err, "locks need read committed")
	marks(t, err, true, false)
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	config := connect(t, server).Config()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, err = New(t.Context(), pool, &Options{Schema: schema()})
	says(t, err, "postgres is read-only here")
	marks(t, err, true, false)
}

func TestTraits(t *testing.T) {
	t.Parallel()
	unsafe := open(t, fresh(server)).Traits()
	notes := strings.Join(unsafe.Remarks(), "\n")
	if unsafe.Restart || unsafe.Fencing != driver.ClockFencing || !strings.Contains(notes, "fsync off") {
		t.Errorf("without fsync the traits are %+v", unsafe)
	}
	safe := open(t, fresh(servertest.Postgres(t, "fsync = on"))).Traits()
	if !safe.Restart || safe.Failover || safe.Fencing != driver.DurableFencing || safe.Wake != "push" {
		t.Errorf("with fsync the traits are %+v", safe)
	}
	s := fresh(servertest.Postgres(t, "fsync = on"))
	d := open(t, s)
	for _, table := range []string{"name", "claim"} {
		exec(t, d.link.Pool(), d.tables.fill(`ALTER TABLE "{schema}".{prefix}`+table+" SET UNLOGGED"), asText)
		emptied, err := d.promises(t.Context())
		if notes := strings.Join(emptied.Remarks(), "\n"); err != nil || emptied.Restart || emptied.Failover ||
			emptied.Fencing != driver.ClockFencing || !strings.Contains(notes, "_"+table) {
			t.Errorf("with an unlogged table of %ss the traits are %+v, %v", table, emptied, err)
		}
	}
	if !strings.HasPrefix(safe.Server, "PostgreSQL 1") {
		t.Errorf("the server is %q; want its version", safe.Server)
	}
}
