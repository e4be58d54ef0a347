package sqlrow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// stale is the age at which the other users of tb_distributed_lock consider a row abandoned.
const stale = 5 * time.Minute

// A methodLock is tb_distributed_lock. A name is held while it has a row, until the row is stale by dl_operate_time. The
// recipe in articles has holes, which are closed here: a row is removed or taken over only if it is unchanged, by its dl_id
// and time, and each renewal sets the time even if nothing else changes.
//
// In dl_device_info a stile claim has its lease, so that another stile need not wait five minutes for a claim whose client
// died. The others do, and a lease is no longer than their five minutes.
type methodLock struct {
	d                                          *Driver
	insert, holder, all, renew, release, leave string
}

// All times are points in time, never wall clock times: the difference of two of these jumps with summer time, and means
// nothing between sessions in two zones. So the column must know its zone; see zoned.
var methodLockTimes = map[Dialect][]string{
	PostgreSQL: {
		"{utc}", "",
		"{now}", "clock_timestamp()",
		"{age}", "(extract(epoch FROM clock_timestamp() - dl_operate_time) * 1000000)::bigint",
		"{time}", "(extract(epoch FROM dl_operate_time) * 1000000)::bigint",
	},
	MySQL: {
		// In the hour that comes twice, MySQL takes its own NOW() for the time an hour earlier, unless the session is in
		// UTC. For MariaDB, which does not, this is a comment.
		"{utc}", "/*+ SET_VAR(time_zone = '+00:00') */ ",
		"{now}", "NOW()",
		"{age}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - " +
			"CAST(UNIX_TIMESTAMP(dl_operate_time) * 1000000 AS SIGNED)",
		"{time}", "CAST(UNIX_TIMESTAMP(dl_operate_time) * 1000000 AS SIGNED)",
	},
}

// zoned returns an error if the type of the time column does not say when a row was written. A value in such a column
// depends on the zone of the session that wrote it, which is not known later.
func zoned(d Dialect, table, kind string) error {
	want, change := "TIMESTAMPTZ", "ALTER TABLE "+table+" ALTER dl_operate_time TYPE timestamptz"
	if d == MySQL {
		want = "TIMESTAMP"
		change = "ALTER TABLE " + table + " MODIFY dl_operate_time TIMESTAMP NOT NULL " +
			"DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
	}
	if kind == want {
		return nil
	}
	return driver.Refused(fmt.Errorf("column dl_operate_time is %s, whose times depend on the zone of each session, "+
		"so that two could hold one lock: %s", kind, change))
}

func newMethodLock(d *Driver, table string) *methodLock {
	s := func(text string) string {
		return d.statement(strings.ReplaceAll(text, "{table}", table), methodLockTimes[d.dialect]...)
	}
	const all = "SELECT dl_id, dl_method_name, dl_device_info, {age}, {time} FROM {table}"
	const seen = " WHERE dl_id = ? AND dl_device_info = ? AND {time} = ?"
	return &methodLock{
		d: d,
		insert: s("INSERT {utc}INTO {table} (dl_method_name, dl_device_info, dl_operate_time) VALUES (?, ?, {now}) " +
			d.unless("dl_method_name")),
		holder:  s(all + " WHERE dl_method_name = ?"),
		all:     s(all),
		renew:   s("UPDATE {utc}{table} SET dl_operate_time = {now}" + seen),
		leave:   s("UPDATE {utc}{table} SET dl_operate_time = {now}, dl_device_info = ?" + seen),
		release: s("DELETE FROM {table}" + seen),
	}
}

// A row is a row of tb_distributed_lock.
type row struct {
	id     int64
	name   string
	device string
	age    time.Duration // since its last operation
	time   int64         // of its last operation
}

func (r *row) scan(from interface{ Scan(to ...any) error }) error {
	var age int64
	err := from.Scan(&r.id, &r.name, &r.device, &age, &r.time)
	r.age = span(age)
	return err
}

func (l *methodLock) read(ctx context.Context, name string) (*row, error) {
	var r row
	err := r.scan(l.d.db.QueryRowContext(ctx, l.holder, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &r, err
}

// is reports whether a row belongs to a claim.
func (r *row) is(c *driver.Claim) bool {
	return r != nil && r.name == c.Name && strings.HasPrefix(r.device, who(c))
}

// left returns how long a row still counts.
func (r *row) left() time.Duration {
	life := stale
	if t, ok := parse(r.device); ok {
		life = t.life
	}
	return life - r.age
}

// ticket returns the ticket of the row's claim.
func (r *row) ticket() int64 { return r.id + waitingTicket }

func (r *row) standing() driver.ClaimInfo { return standing(r.device, r.ticket(), r.age, r.left()) }

// args returns the arguments that select a row if it is unchanged.
func (r *row) args() []any { return []any{r.id, r.device, r.time} }

func (l *methodLock) take(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.TTL+c.Delay > stale {
		return driver.Place{}, driver.Refused(fmt.Errorf("ttl %v and lock-delay %v are together more than %v, "+
			"after which others take the lock for left behind", c.TTL, c.Delay, stale))
	}
	for range 3 { // a stale row is removed first
		device := l.d.text(who(c), c, c.TTL+c.Delay, c.Delay)
		if _, err := changed(l.d.db.ExecContext(ctx, l.insert, c.Name, device)); err != nil {
			return driver.Place{}, err
		}
		r, err := l.read(ctx, c.Name)
		switch {
		case err != nil:
			return driver.Place{}, &late{err}
		case r == nil:
			continue // it was released a moment ago
		case r.name != c.Name:
			return driver.Place{}, sameName(c.Name, r.name)
		case r.is(c) && r.left() > c.Delay:
			ttl, err := l.extend(ctx, c)
			return driver.Place{Ticket: r.ticket(), Holds: err == nil, TTL: ttl}, err
		case strings.HasPrefix(r.device, was(c)):
			return driver.Place{}, driver.ErrGone
		case r.left() > 0 && !reclaims(c, r.device):
			return driver.Place{Retry: r.left(), Blocker: r.standing()}, nil
		}
		if _, err := l.d.db.ExecContext(ctx, l.release, r.args()...); err != nil {
			return driver.Place{}, err
		}
	}
	return driver.Place{Retry: lookLeast}, nil
}

// held returns the row of a claim that holds.
func (l *methodLock) held(ctx context.Context, c *driver.Claim) (*row, error) {
	r, err := l.read(ctx, c.Name)
	if err == nil && (!r.is(c) || r.left() <= c.Delay) {
		err = driver.ErrGone
	}
	return r, err
}

func (l *methodLock) extend(ctx context.Context, c *driver.Claim) (time.Duration, error) {
	r, err := l.held(ctx, c)
	if err != nil {
		return 0, err
	}
	if _, err := l.d.db.ExecContext(ctx, l.renew, r.args()...); err != nil {
		return 0, err
	}
	if r, err = l.held(ctx, c); err != nil {
		return 0, &late{err}
	}
	return r.left() - c.Delay, nil
}

func (l *methodLock) free(ctx context.Context, c *driver.Claim, left time.Duration) error {
	for {
		r, err := l.held(ctx, c)
		if err != nil {
			return err
		}
		statement, args := l.release, r.args()
		if left > 0 {
			statement, args = l.leave, append([]any{l.d.text(was(c), c, left, 0)}, args...)
		}
		had, err := changed(l.d.db.ExecContext(ctx, statement, args...))
		if err != nil || had {
			return err
		}
		// It was renewed meanwhile, so that the row has changed, or it is gone.
	}
}

func (l *methodLock) timeLeft(ctx context.Context, name string) (time.Duration, error) {
	r, err := l.read(ctx, name)
	if err != nil || r == nil {
		return 0, err
	}
	return r.left(), nil
}

func (l *methodLock) standing(ctx context.Context, name string) (list []standingRow, err error) {
	statement, args := l.all, []any(nil)
	if name != "" {
		statement, args = l.holder, []any{name}
	}
	err = each(ctx, l.d.db, statement, args, func(rows *sql.Rows) error {
		var r row
		if err := r.scan(rows); err != nil || r.left() <= 0 || name != "" && r.name != name {
			return err
		}
		list = append(list, standingRow{r.name, r.standing(), func(ctx context.Context) (bool, error) {
			return changed(l.d.db.ExecContext(ctx, l.release, r.args()...))
		}})
		return nil
	})
	return list, err
}

func (l *methodLock) traits(t *driver.Traits) {
	t.Store, t.MinTTL, t.MaxTTL, t.Granularity = "tb_distributed_lock", 2*time.Second, stale, time.Second
	t.Note("the table has whole seconds, so a lease may end one early")
	t.Note("other users regard the lock of a dead holder as left behind after five minutes, however short its ttl")
}
