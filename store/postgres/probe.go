package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// probeWithin bounds the driver's own requests.
const probeWithin = 10 * time.Second

// facts is the server's own description.
type facts struct {
	link.Server
	readOnly                          bool
	fsync, pages, isolation, standbys string
	replicas                          int
	unlogged                          string // tables that a crash empties
}

// probe asks for the server's promises, makes the tables, and tests whether notifications arrive.
func (d *Driver) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := d.askFacts(ctx)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return driver.Refused(err)
	}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	pooled, err := d.link.FindPooler(ctx)
	if err != nil {
		return err
	}
	failed := (&listener{d}).try(ctx, pooled)
	if errors.Is(failed, context.DeadlineExceeded) && pooled && d.link.Pool().Stat().MaxConns() > 1 {
		return driver.NotYet(d.link.Explain(ctx, failed)) // only the first connection was answered
	}
	if failed != nil {
		d.pollReason = d.reason(failed)
	}
	if failed == nil {
		d.link.Prepare()
	}
	for _, id := range serverIDs { // not every server that calls itself PostgreSQL has one, or shows it to every user
		d.failover.expression = id
		if now, err := d.serverID(ctx, d.link.Pool()); err == nil {
			d.failover.begin(now)
			d.statements = newStatements(d.tables, id)
			break
		}
	}
	if ctx.Err() != nil {
		return driver.Ended(ctx, true)
	}
	d.promised.Set(d.promise(f))
	return nil
}

// promises asks again for the server's promises.
func (d *Driver) promises(ctx context.Context) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := d.askFacts(ctx)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return driver.Traits{}, err
	}
	return d.promise(f), nil
}

// promise returns the traits of the server, with these tables and by this pool.
func (d *Driver) promise(f *facts) driver.Traits {
	t := f.promise(d.pollReason)
	if f.standbys != "" && !d.link.Heeds() {
		t.Warn("the pool's ConnConfig.OnNotice = postgres.OnNotice",
			"A commit whose wait for the synchronous standby somebody cancels counts as done.")
	}
	t.Amends = d.revision >= amendRevision
	if d.revision < schemaRevision {
		t.Warn("what \"stile migrate --print\" prints, run by the owner of the tables",
			"The tables and functions are of an older stile.")
	}
	return t
}

// serverID asks the server for its id.
func (d *Driver) serverID(ctx context.Context, q querier) (id string, err error) {
	err = q.QueryRow(ctx, "SELECT "+d.failover.expression, link.Plain).Scan(&id)
	return id, err
}

func (d *Driver) reason(err error) string {
	if errors.Is(err, errNoNotify) {
		return err.Error()
	}
	return "no connection could be made to listen on: " + d.link.Cause(err).Error()
}

func (d *Driver) askFacts(ctx context.Context) (*facts, error) {
	f := &facts{}
	err := d.link.Query(ctx, "SELECT "+link.AboutServer+`,
current_setting('transaction_read_only') = 'on', current_setting('fsync'), current_setting('full_page_writes'),
current_setting('default_transaction_isolation'), current_setting('synchronous_standby_names'),
(SELECT count(*) FROM pg_stat_replication),
`+d.tables.fill(`(SELECT coalesce(string_agg(c.relname, ', ' ORDER BY c.relname), '') FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{schema}' AND c.relpersistence <> 'p'
AND c.relname IN ('{prefix}name', '{prefix}claim', '{prefix}meta'))`), nil, func(rows pgx.Rows) error {
		return rows.Scan(&f.Version, &f.Number, &f.Standby,
			&f.readOnly, &f.fsync, &f.pages, &f.isolation, &f.standbys, &f.replicas, &f.unlogged)
	})
	return f, err
}

// check returns why locks cannot be kept in tables of this server, or nil.
func (f *facts) check() error {
	switch err := f.Check(); {
	case err != nil:
		return err
	case f.readOnly:
		return errors.New("postgres is read-only here (default_transaction_read_only)")
	case f.isolation != "read committed":
		return fmt.Errorf("the default isolation of transactions is %s here, and locks need read committed: "+
			"ALTER ROLE … SET default_transaction_isolation = 'read committed'", f.isolation)
	}
	return nil
}

// promise returns the traits of this server.
func (f *facts) promise(pollReason string) driver.Traits {
	t := driver.Traits{
		Store: "postgres", Server: f.Product(), Ordered: true, Shared: true, Permits: true, Delay: true, Fencing: driver.DurableFencing,
		Restart: true, Failover: f.standbys != "", Clock: "server", Wake: "push", HearsBreak: true,
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	if f.fsync != "on" || f.pages != "on" {
		t.Warn("fsync on, full_page_writes on", "The server does not write safely (fsync %s, full_page_writes %s): "+
			"a crash of its host can lose claims and the whole database.", f.fsync, f.pages)
		t.Restart, t.Failover, t.Fencing = false, false, driver.ClockFencing
	}
	switch {
	case f.standbys != "":
		t.Note("Commits wait for a synchronous standby: only one of those may be promoted.")
	case f.replicas > 0:
		t.Warn("synchronous_standby_names", "Standbys follow late, so a failover can lose the last claims "+
			"and let two hold a lock; tickets then rise as long as the clocks agree.")
		t.Fencing = driver.ClockFencing
	default:
		t.Note("There is no standby.")
	}
	if f.unlogged != "" {
		t.Warn("ALTER TABLE … SET LOGGED", "A crash of the server empties what is not logged here (%s), and no standby has it: "+
			"then two can hold a lock.", f.unlogged)
		t.Restart, t.Failover, t.Fencing = false, false, driver.ClockFencing
	}
	if pollReason != "" {
		t.Warn("", "Waiters poll, and whose claim somebody breaks learns of it at the next renewal: %s.", pollReason)
		t.Wake, t.HearsBreak = "poll", false
	}
	t.Note("Leases end by the server's wall clock: a step of it ends them early or late. Tickets rise all the same.")
	t.Note("A crash of the server can bring back a lock that was released a moment before, until its lease ends.")
	return t
}
