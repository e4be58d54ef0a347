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

// A shedLock is ShedLock's table: name, lock_until, locked_at, locked_by. A name is free if it has no row, or one whose
// lock_until has passed; rows are never deleted. The holder is in locked_by. ShedLock writes the host's name there by
// default; for stile, see [who].
type shedLock struct {
	d                                                *Driver
	zone                                             bool // the columns are read in the zone of the session
	update, insert, renew, leave, holder, all, evict string
}

// Times are in UTC without a zone, as in ShedLock with usingDbTime. MySQL's have milliseconds, so a lease is rounded up to
// them.
var shedLockTimes = map[Dialect][]string{
	PostgreSQL: {
		"{now}", "timezone('utc', clock_timestamp())",
		"{after}", "timezone('utc', clock_timestamp()) + ? * interval '1 microsecond'",
		"{left}", "(extract(epoch FROM lock_until - timezone('utc', clock_timestamp())) * 1000000)::bigint",
		"{ticket}", "(extract(epoch FROM locked_at) * 1000000)::bigint",
		"{age}", "(extract(epoch FROM timezone('utc', clock_timestamp()) - locked_at) * 1000000)::bigint",
		"{exact}", "name = ?",
	},
	MySQL: {
		"{now}", "UTC_TIMESTAMP(3)",
		"{after}", "TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(3))",
		"{left}", "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), lock_until)",
		"{ticket}", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at)",
		"{age}", "TIMESTAMPDIFF(MICROSECOND, locked_at, UTC_TIMESTAMP(3))",
		"{exact}", "name = ? AND BINARY name = BINARY ?",
	},
}

// unzoned returns an error if a column cannot store UTC, since each session would read it in a zone of its own: with a
// timestamptz of PostgreSQL, if ShedLock's driver for Java sets the zone of the program. A TIMESTAMP of MySQL, as in
// ShedLock's documentation, can while all sessions are in one zone.
func (l *shedLock) unzoned(table, kind string) error {
	if l.zone = kind == "TIMESTAMP" && l.d.dialect == MySQL; kind != "TIMESTAMPTZ" {
		return nil
	}
	return driver.Refused(errors.New("the times have a zone, and ShedLock writes UTC without one, " +
		"so that programs in two zones could hold one lock: " +
		"ALTER TABLE " + table + " ALTER lock_until TYPE timestamp, ALTER locked_at TYPE timestamp"))
}

// precise returns an error if a time column does not keep milliseconds: a lease would be cut to whole seconds, or even more
// in another type.
func (l *shedLock) precise(ctx context.Context, table string) error {
	for _, column := range []string{"lock_until", "locked_at"} {
		var (
			kind   string
			digits sql.NullInt64
		)
		known, err := l.d.describe(ctx, table, column, "data_type, datetime_precision", &kind, &digits)
		if err != nil {
			return fmt.Errorf("the type of column %s of table %s: %w", column, table, l.d.explain(err))
		}
		first, _, _ := strings.Cut(strings.ToLower(kind), " ")
		const milliseconds = 3
		switch is := first == "timestamp" || first == "datetime"; {
		case !known || is && digits.Int64 >= milliseconds:
			continue
		case is:
			err = fmt.Errorf("column %s keeps times to %d digits of a second, which shortens each lease", column, digits.Int64)
		default:
			err = fmt.Errorf("column %s is a %s, which cannot keep the time at which a lock ends", column, kind)
		}
		change := "MODIFY lock_until DATETIME(3) NOT NULL, MODIFY locked_at DATETIME(3) NOT NULL"
		if l.d.dialect == PostgreSQL {
			change = "ALTER lock_until TYPE timestamp, ALTER locked_at TYPE timestamp"
		}
		return driver.Refused(fmt.Errorf("table %s: %w: ALTER TABLE %s %s", table, err, table, change))
	}
	return nil
}

func newShedLock(d *Driver, table string) *shedLock {
	s := func(text string) string {
		return d.statement(strings.ReplaceAll(text, "{table}", table), shedLockTimes[d.dialect]...)
	}
	const (
		seen = "SELECT name, {left}, {ticket}, {age}, locked_by FROM {table}"
		ours = " WHERE {exact} AND LEFT(locked_by, ?) = ? AND lock_until > {after}"
	)
	return &shedLock{
		d: d,
		update: s("UPDATE {table} SET lock_until = {after}, locked_at = {now}, locked_by = ? " +
			"WHERE {exact} AND lock_until <= {now}"),
		insert: s("INSERT INTO {table} (name, lock_until, locked_at, locked_by) VALUES (?, {after}, {now}, ?) " +
			d.unless("name")),
		renew: s("UPDATE {table} SET lock_until = GREATEST(lock_until, {after})" + ours),
		leave: s("UPDATE {table} SET lock_until = {after}, locked_by = ?" + ours),
		evict: s("UPDATE {table} SET lock_until = {now}, locked_by = 'broken' " +
			"WHERE {exact} AND locked_by = ? AND {ticket} = ? AND lock_until > {now}"),
		holder: s(seen + " WHERE name = ?"),
		all:    s(seen + " WHERE lock_until > {now}"),
	}
}

// exact returns the arguments of {exact}.
func (l *shedLock) exact(name string) []any {
	if l.d.dialect == MySQL {
		return []any{name, name}
	}
	return []any{name}
}

// A holding is the content of a row.
type holding struct {
	name   string
	left   time.Duration
	ticket int64
	age    time.Duration // since it was locked
	by     string
}

func (h *holding) scan(row interface{ Scan(to ...any) error }) error {
	var left, age int64
	err := row.Scan(&h.name, &left, &h.ticket, &age, &h.by)
	h.left, h.age = span(left), span(age)
	return err
}

func (l *shedLock) read(ctx context.Context, name string) (*holding, error) {
	var h holding
	err := h.scan(l.d.db.QueryRowContext(ctx, l.holder, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &h, err
}

// unlock sets a row's time to now, if the row is unchanged.
func (l *shedLock) unlock(ctx context.Context, h *holding) (bool, error) {
	return changed(l.d.db.ExecContext(ctx, l.evict, append(l.exact(h.name), h.by, h.ticket)...))
}

func (l *shedLock) take(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	whole, mark := micros(c.TTL+c.Delay), l.d.text(who(c), c, c.TTL+c.Delay, c.Delay)
	args := append([]any{whole, mark}, l.exact(c.Name)...)
	had, err := changed(l.d.db.ExecContext(ctx, l.update, args...))
	if err == nil && !had {
		had, err = changed(l.d.db.ExecContext(ctx, l.insert, c.Name, whole, mark))
	}
	if err != nil {
		return driver.Place{}, err
	}
	h, err := l.read(ctx, c.Name)
	switch {
	case err != nil:
		return driver.Place{}, &late{err}
	case h == nil:
		return driver.Place{}, errors.New("the row of the lock is gone just after it was there")
	case h.name != c.Name:
		return driver.Place{}, sameName(c.Name, h.name)
	case strings.HasPrefix(h.by, who(c)) && had:
		return driver.Place{Ticket: h.ticket, Holds: true, TTL: max(0, h.left-c.Delay)}, nil
	case strings.HasPrefix(h.by, who(c)):
		ttl, err := l.extend(ctx, c)
		return driver.Place{Ticket: h.ticket, Holds: err == nil, TTL: ttl}, err
	case strings.HasPrefix(h.by, was(c)):
		return driver.Place{}, driver.ErrGone
	case reclaims(c, h.by):
		again := *c
		again.Reclaim = false
		if _, err := l.unlock(ctx, h); err != nil {
			return driver.Place{}, err
		}
		return l.take(ctx, &again)
	}
	return driver.Place{Retry: max(0, h.left), Blocker: standing(h.by, h.ticket, h.age, h.left)}, nil
}

func (l *shedLock) extend(ctx context.Context, c *driver.Claim) (time.Duration, error) {
	args := append([]any{micros(c.TTL + c.Delay)}, l.exact(c.Name)...)
	had, err := changed(l.d.db.ExecContext(ctx, l.renew, append(args, len(who(c)), who(c), micros(c.Delay))...))
	if err != nil {
		return 0, err
	}
	// MySQL does not count an unchanged row.
	h, err := l.read(ctx, c.Name)
	if err == nil && (h == nil || !strings.HasPrefix(h.by, who(c)) || !had && h.left <= c.Delay) {
		err = driver.ErrGone
	}
	if err != nil {
		return 0, &late{err}
	}
	return max(0, h.left-c.Delay), nil
}

// free marks the row as left, even without keep: a renewal that began a moment before and comes after it would go by its
// own, earlier time, by which the lock is still held.
func (l *shedLock) free(ctx context.Context, c *driver.Claim, keep time.Duration) error {
	args := append([]any{micros(keep), l.d.text(was(c), c, keep, 0)}, l.exact(c.Name)...)
	had, err := changed(l.d.db.ExecContext(ctx, l.leave, append(args, len(who(c)), who(c), micros(c.Delay))...))
	if err == nil && !had {
		err = driver.ErrGone
	}
	return err
}

func (l *shedLock) timeLeft(ctx context.Context, name string) (time.Duration, error) {
	h, err := l.read(ctx, name)
	if err != nil || h == nil {
		return 0, err
	}
	return h.left, nil
}

func (l *shedLock) standing(ctx context.Context, name string) (list []standingRow, err error) {
	statement, args := l.all, []any(nil)
	if name != "" {
		statement, args = l.holder, []any{name}
	}
	err = each(ctx, l.d.db, statement, args, func(rows *sql.Rows) error {
		var h holding
		if err := h.scan(rows); err != nil || h.left <= 0 || name != "" && h.name != name {
			return err
		}
		list = append(list, standingRow{
			h.name, standing(h.by, h.ticket, h.age, h.left),
			func(ctx context.Context) (bool, error) { return l.unlock(ctx, &h) },
		})
		return nil
	})
	return list, err
}

func (l *shedLock) traits(t *driver.Traits) {
	t.Store, t.MinTTL, t.Granularity = "shedlock", 100*time.Millisecond, time.Millisecond
	t.Note("ShedLock must use the time of the database (usingDbTime), " +
		"and, on one host, a name of its own for each process (lockedBy)")
	if l.zone {
		t.Unfit("ALTER TABLE … MODIFY lock_until DATETIME(3) NOT NULL, MODIFY locked_at DATETIME(3) NOT NULL",
			"the times are columns of type TIMESTAMP: two programs whose sessions have different time zones can hold one lock")
	}
}
