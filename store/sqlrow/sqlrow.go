// Package sqlrow keeps each lock as one row of a table that programs in other languages use too, so that they and stile
// exclude each other: ShedLock's table, and the tb_distributed_lock that many services have copied from an article.
//
// Use it to move to stile name by name. Such a table has no queue: locks are exclusive, the first to ask after a release is
// next, a waiter polls, and the others have no tokens for a resource to compare. It works on any *sql.DB of PostgreSQL,
// MySQL or MariaDB and imports no driver; packages postgres and mysql open it by URL.
package sqlrow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A Dialect is the kind of a database.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
)

// A Layout is the form of a lock's row.
type Layout int

// The layouts.
const (
	// ShedLock is the table of ShedLock, with times of the database in UTC (usingDbTime in ShedLock).
	ShedLock Layout = iota + 1

	// MethodLock is tb_distributed_lock: a unique method name, the device, and the time of the last operation. Its other
	// users consider a row stale after five minutes.
	MethodLock
)

// Options are the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	Table string // its name, with a schema before a dot if needed; "" means the layout's own

	// Explain turns an error of the SQL driver into one of package driver: refused, unsent, unreachable. Nil means that an
	// error leaves the outcome unknown.
	Explain func(error) error
}

// A Driver keeps locks in a table. It makes no table: the table belongs to the others.
type Driver struct {
	db      *sql.DB
	dialect Dialect
	rows    rows
	explain func(error) error
	longest int64 // characters of a name; 0 means no limit
	room    int   // characters of the text about the holder

	ctx    context.Context
	cancel context.CancelFunc
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Breaker
} = (*Driver)(nil)

// rows is a layout.
type rows interface {
	// take tries to make a claim the holder of its name, or finds that it already is.
	take(ctx context.Context, c *driver.Claim) (driver.Place, error)
	// extend restarts the lease of a holder.
	extend(ctx context.Context, c *driver.Claim) (time.Duration, error)
	// free releases a holder's lock, after the time left if this is not 0.
	free(ctx context.Context, c *driver.Claim, left time.Duration) error
	// timeLeft returns how long the name stays taken without another change; 0 if it is free.
	timeLeft(ctx context.Context, name string) (time.Duration, error)
	// standing returns the row of a name, or of all names if the name is empty, without free ones.
	standing(ctx context.Context, name string) ([]standingRow, error)
	traits(t *driver.Traits)
}

// waitingTicket is the ticket of a claim that waits: the table stores nothing of it. Real tickets are larger.
const waitingTicket = 1

var identifier = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)
})

// New returns a driver over a database, which it leaves open when it closes. The error says that the table is missing or has
// other columns.
func New(ctx context.Context, db *sql.DB, dialect Dialect, layout Layout, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	d := &Driver{db: db, dialect: dialect, explain: o.Explain}
	if d.explain == nil {
		d.explain = func(err error) error { return err }
	}
	if dialect != PostgreSQL && dialect != MySQL {
		return nil, driver.Refused(fmt.Errorf("no dialect has number %d", int(dialect)))
	}
	table, column, by := o.Table, "name", "locked_by"
	if layout == MethodLock {
		column, by = "dl_method_name", "dl_device_info"
	}
	if table == "" {
		table = map[Layout]string{ShedLock: "shedlock", MethodLock: "tb_distributed_lock"}[layout]
	}
	if table != "" && !identifier().MatchString(table) {
		return nil, driver.Refused(fmt.Errorf("table %q: it must be letters, digits and _, "+
			"with a schema before a dot if need be", table))
	}
	var probe string                  // the required columns, one with times first
	var timed func(kind string) error // judges the type of that column
	precise := func() error { return nil }
	switch layout {
	case ShedLock:
		l := newShedLock(d, table)
		d.rows, probe = l, "lock_until, locked_at, name, locked_by"
		timed = func(kind string) error { return l.unzoned(table, kind) }
		precise = func() error { return l.precise(ctx, table) }
	case MethodLock:
		d.rows, probe = newMethodLock(d, table), "dl_operate_time, dl_id, dl_method_name, dl_device_info"
		timed = func(kind string) error { return zoned(dialect, table, kind) }
	default:
		return nil, driver.Refused(fmt.Errorf("no layout has number %d", int(layout)))
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	err := d.probe(ctx, table, probe, column, by, timed)
	if err == nil {
		err = precise()
	}
	if err != nil {
		d.cancel()
		return nil, err
	}
	return d, nil
}

// probe checks whether the table exists and is fit, and reads the sizes of its columns.
func (d *Driver) probe(ctx context.Context, table, columns, column, by string, timed func(kind string) error) error {
	if err := d.db.PingContext(ctx); err != nil {
		return d.explain(err)
	}
	kind, err := d.kind(ctx, "SELECT "+columns+" FROM "+table+" WHERE 1 = 0")
	if err != nil {
		return fmt.Errorf("table %s with columns %s: %w", table, columns, d.explain(err))
	}
	if err := timed(kind); err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	if d.longest, err = d.length(ctx, table, column); err != nil {
		return fmt.Errorf("the length of column %s of table %s: %w", column, table, d.explain(err))
	}
	room, err := d.length(ctx, table, by)
	if err != nil {
		return fmt.Errorf("the length of column %s of table %s: %w", by, table, d.explain(err))
	}
	const enough = 255 // as in ShedLock's documentation
	if d.room = enough; room > 0 {
		d.room = int(min(room, enough))
	}
	return nil
}

// kind returns the type of the first column of a query.
func (d *Driver) kind(ctx context.Context, query string) (string, error) {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return "", err
	}
	rows.Next()
	return types[0].DatabaseTypeName(), rows.Err()
}

// length returns how many characters a column has room for; 0 means no limit. A lenient database would cut a longer name.
func (d *Driver) length(ctx context.Context, table, column string) (int64, error) {
	var most sql.NullInt64
	_, err := d.describe(ctx, table, column, "character_maximum_length", &most)
	return most.Int64, err
}

// describe reads the database's description of a column, and reports whether there is one.
func (d *Driver) describe(ctx context.Context, table, column, what string, to ...any) (known bool, err error) {
	schema, name, ok := strings.Cut(table, ".")
	where, args := "table_name = ? AND column_name = ?", []any{name, column}
	switch {
	case ok:
		where += " AND table_schema = ?"
		args = append(args, schema)
	case d.dialect == PostgreSQL:
		where, args = where+" AND table_schema = ANY (current_schemas(false))", []any{strings.ToLower(table), column}
	default:
		where, args = where+" AND table_schema = DATABASE()", []any{table, column}
	}
	row := d.db.QueryRowContext(ctx, d.statement("SELECT "+what+" FROM information_schema.columns WHERE "+where), args...)
	err = row.Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// unless returns the part of an INSERT that makes it do nothing if the row exists, and still fail for any other reason.
func (d *Driver) unless(key string) string {
	if d.dialect == PostgreSQL {
		return "ON CONFLICT DO NOTHING"
	}
	return "ON DUPLICATE KEY UPDATE " + key + " = " + key
}

// statement writes a statement for the dialect: ? stands for each argument, and {now}, {after} and {left} for times of the
// database. {after} is the time after a number of microseconds, which is an argument.
func (d *Driver) statement(text string, times ...string) string {
	text = strings.NewReplacer(times...).Replace(text)
	if d.dialect != PostgreSQL {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// Enter tries to take the lock. The table stores nothing of a claim that does not hold: entering again is another attempt.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (p driver.Place, err error) {
	if c.Weight != driver.All || c.Capacity != driver.All {
		return p, fmt.Errorf("%w: a lock of one row has neither readers nor permits", driver.ErrUnsupported)
	}
	if n := utf8.RuneCountInString(c.Name); d.longest > 0 && int64(n) > d.longest {
		return p, driver.Refused(fmt.Errorf("the name has %d characters; the table's column has room for %d", n, d.longest))
	}
	err = d.call(ctx, func(ctx context.Context) error {
		if c.Ticket > waitingTicket {
			ttl, err := d.rows.extend(ctx, c)
			p = driver.Place{Ticket: c.Ticket, Holds: err == nil, TTL: ttl}
			return err
		}
		p, err = d.rows.take(ctx, c)
		return err
	})
	if err != nil {
		return driver.Place{}, err
	}
	if !p.Holds {
		p.Ahead = 1
		if !c.Try {
			p.Ticket, p.TTL = waitingTicket, c.Wait
		}
	}
	return p, nil
}

const (
	lookLeast = 10 * time.Millisecond // between reads of a row
	lookMost  = 200 * time.Millisecond
)

// Await reads the row repeatedly, less and less often, until it is free.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	for pause := lookLeast; ; pause = min(2*pause, lookMost) {
		var left time.Duration
		err := d.call(ctx, func(ctx context.Context) (err error) {
			left, err = d.rows.timeLeft(ctx, c.Name)
			return err
		})
		if err != nil || left <= 0 {
			return driver.Place{}, err
		}
		timer := time.NewTimer(min(left, pause/2+rand.N(pause/2)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return driver.Place{}, driver.Ended(ctx, true)
		case <-d.ctx.Done():
			timer.Stop()
			return driver.Place{}, driver.ErrClosed
		}
	}
}

// Renew is one statement for each claim.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if driver.Amending(cs) {
		return driver.Unamended(ctx, cs, d.Renew)
	}
	all := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		all[i].Err = d.call(ctx, func(ctx context.Context) (err error) {
			all[i].TTL, err = d.rows.extend(ctx, c)
			return err
		})
	}
	return all
}

// Leave is one statement.
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	return d.call(ctx, func(ctx context.Context) error { return d.rows.free(ctx, l.Claim, l.Keep) })
}

// Traits is [driver.Driver].
func (d *Driver) Traits() driver.Traits {
	t := driver.Traits{
		Delay: true, ShortRecord: true, Fencing: driver.NoFencing, Restart: true,
		Clock: "server", Wake: "poll", MaxTTL: driver.MaxTTL,
		Notes: []string{"exclusive locks only, in no order, and without tokens that a resource could compare",
			"a claim that holds cannot be changed: " +
				"the column of its holder has no room for a record, which is cut to a few words there"},
	}
	d.rows.traits(&t)
	return t
}

// Close is [driver.Driver].
func (d *Driver) Close() error {
	d.cancel()
	return nil
}

// call runs f on a context that ends with the driver too.
func (d *Driver) call(ctx context.Context, f func(context.Context) error) error {
	if d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return err
	}
	joined, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	err := f(joined)
	if l, ok := errors.AsType[*late](err); ok {
		return driver.Afterwards(d.explained(ctx, l.error))
	}
	return d.explained(ctx, err)
}

// Unwrap returns the cause.
func (l *late) Unwrap() error { return l.error }

// A late error comes from a statement after the one that may have changed the row.
type late struct{ error }

// explained adds an error's meaning, and its outcome.
func (d *Driver) explained(ctx context.Context, err error) error {
	switch {
	case err == nil || driver.NotApplied(err):
		return err
	case d.ctx.Err() != nil:
		return errors.New("the client was closed while the database had the statement")
	case ctx.Err() != nil:
		return driver.Ended(ctx, true)
	}
	return d.explain(err)
}

func micros(t time.Duration) int64 { return t.Microseconds() }

func span(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// sameName returns the error for a claim whose row belongs to another name.
func sameName(name, row string) error {
	return fmt.Errorf("%w: for the table's collation, %q is the same name as %q", driver.ErrForeign, name, row)
}

// changed reports whether a statement changed a row.
func changed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}
