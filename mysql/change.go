package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/sqldb"
)

// attempts bounds how often a transaction is begun again when others were in its way.
const attempts = 10

// Change is that of [sqldb.Store]: one round trip that locks the rows of the names and reads their queues, and one that
// writes and commits. An error of the second may leave open what has become of it.
func (s *store) Change(ctx context.Context, steps []sqldb.Step) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	for n := 1; ; n++ {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		err = s.attempt(ctx, conn, steps)
		conn.Close()
		if err == nil || n == attempts || ctx.Err() != nil || !driver.NotApplied(err) || !again(err) {
			return err
		}
		if err := s.pause(ctx, time.Duration(n)*rand.N(2*time.Millisecond)); err != nil {
			return err
		}
	}
}

func (s *store) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return s.definite(ctx, ctx.Err())
	}
}

// attempt does the steps once.
func (s *store) attempt(ctx context.Context, conn *sql.Conn, steps []sqldb.Step) error {
	t := &transaction{s: s, conn: conn}
	err := t.work(ctx, steps)
	dropped := err != nil && faultOf(err).drop
	switch {
	case err != nil: // nothing was written: it may have been lost, or another server may be the one that accepts writes now
		err = s.definite(ctx, err)
	case len(t.writes) > 0:
		err = s.exec(ctx, conn, append(t.writes, "COMMIT"))
		dropped = err != nil && faultOf(err).drop
		if err = s.judged(ctx, conn, err); err == nil {
			return nil
		}
	}
	if dropped {
		drop(conn)
	} else {
		t.undo(ctx)
	}
	return err
}

// A transaction is a change at work.
type transaction struct {
	s      *store
	conn   *sql.Conn
	rows   map[key]*row
	now    int64
	writes text
}

// undo ends the transaction without effect, if need be with its connection.
func (t *transaction) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		drop(t.conn)
	}
}

// A key is what a name is found by.
type key [sha256.Size]byte

func keyOf(name string) key { return sha256.Sum256([]byte(name)) }

func (k key) String() string { return quote(k[:]) }

// A row is the row of a name, with its claims.
type row struct {
	name   string
	last   int64
	queued bool // there may be claims in rows of their own
	lone   bool // the only claim is in this row
	queue  *driver.Queue
}

// work begins a transaction, does the steps, and collects what they have to write.
func (t *transaction) work(ctx context.Context, steps []sqldb.Step) error {
	if err := t.read(ctx, steps, text{"START TRANSACTION"}); err != nil {
		return err
	}
	before := t.snapshot()
	missing := t.do(steps)
	if missing == nil {
		return t.save(before)
	}
	// The row of the name is made first, which waits for whoever makes or deletes it at the same time. It must not be
	// a locking read of what is not there: that would lock a gap, and two of them would wait for each other.
	if err := t.read(ctx, steps, text{t.s.place.fill("INSERT INTO `{prefix}name` (`hash`, `name`, `last`, `head`) VALUES (" +
		keyOf(*missing).String() + ", " + quote([]byte(*missing)) + ", 0, 0) ON DUPLICATE KEY UPDATE `last` = `last`")}); err != nil {
		return err
	}
	if err := t.begun(ctx); err != nil {
		return err
	}
	before = t.snapshot()
	if missing := t.do(steps); missing != nil {
		return errors.New("the row of the name cannot be made")
	}
	return t.save(before)
}

// read locks the rows of the steps' names and reads their queues, after other statements.
func (t *transaction) read(ctx context.Context, steps []sqldb.Step, first text) error {
	if !t.s.owned && first[0] == "START TRANSACTION" {
		first = append(text{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED"}, first...)
	}
	names := make([]string, len(steps))
	for i, step := range steps {
		names[i] = step.Name
	}
	var err error
	t.rows, t.now, err = t.s.rows(ctx, t.conn, append(first, t.s.selection(names)+" FOR UPDATE"), names)
	return err
}

// begun has the counters of rows that were just made go on above those that were deleted. Whoever deleted an earlier row
// of these names has committed by now.
func (t *transaction) begun(ctx context.Context) error {
	var floor sql.NullInt64
	q := text{t.s.place.fill("SELECT MAX(`floor`) FROM `{prefix}meta`")}
	if err := t.s.query(ctx, t.conn, q, func(r *sql.Rows) error { return r.Scan(&floor) }); err != nil {
		return err
	}
	if !floor.Valid {
		return fmt.Errorf("%w: %smeta", errEmptied, t.s.place)
	}
	for _, n := range t.rows {
		n.queue.Last = max(n.queue.Last, floor.Int64)
	}
	return nil
}

// selection is the statement that reads the queues of names. The rows of the names are read before their claims.
func (s *store) selection(names []string) string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = keyOf(name).String()
	}
	slices.Sort(keys)
	return s.place.fill("SELECT {clock}," + nameColumns + claimColumns + " FROM `{prefix}name` n LEFT JOIN `{prefix}claim` c ON c.`hash` = n.`hash` AND c.`ticket` >= n.`head` WHERE n.`hash` IN (" +
		strings.Join(slices.Compact(keys), ", ") + ")")
}

const nameColumns = " n.`hash`, n.`name`, n.`last`, n.`queued`, n.`id`, n.`client`, n.`owner`, n.`record`, n.`weight`, n.`capacity`, n.`since`, n.`ends`, n.`delay`,"

const claimColumns = " c.`ticket`, c.`id`, c.`client`, c.`owner`, c.`record`, c.`weight`, c.`capacity`, c.`since`, c.`ends`, c.`delay`, c.`told`, c.`departed`"

// rows reads what a selection selects.
func (s *store) rows(ctx context.Context, conn *sql.Conn, t text, names []string) (map[key]*row, int64, error) {
	rows, now := map[key]*row{}, int64(0)
	err := s.query(ctx, conn, t, func(r *sql.Rows) error {
		var (
			hash, name     []byte
			last           int64
			queued         bool
			lone, claim    columns
			ticket         sql.NullInt64
			told, departed sql.NullBool
		)
		out := append([]any{&now, &hash, &name, &last, &queued}, lone.scan()...)
		out = append(append(out, &ticket), claim.scan()...)
		if err := r.Scan(append(out, &told, &departed)...); err != nil {
			return err
		}
		if len(hash) != sha256.Size {
			return fmt.Errorf("%w: the key of a name has %d bytes", driver.ErrForeign, len(hash))
		}
		n := rows[key(hash)]
		if n == nil {
			n = &row{name: string(name), last: last, queued: queued, lone: lone.ends.Int64 > 0, queue: &driver.Queue{Last: last}}
			rows[key(hash)] = n
			if n.lone {
				lone.add(n.queue, driver.Entry{Ticket: last, Told: true})
			}
		}
		if ticket.Valid {
			claim.add(n.queue, driver.Entry{Ticket: ticket.Int64, Told: told.Bool, Left: departed.Bool})
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		n := rows[keyOf(name)]
		if n == nil {
			continue
		}
		if n.name != name {
			return nil, 0, fmt.Errorf("%w: the row of the name %q has another", driver.ErrForeign, name)
		}
		slices.SortFunc(n.queue.Entries, func(a, b driver.Entry) int { return int(a.Ticket - b.Ticket) })
	}
	return rows, now, nil
}

// Columns are those that a claim has wherever it is kept.
type columns struct {
	id, client, owner, record            []byte
	weight, capacity, since, ends, delay sql.NullInt64
}

func (c *columns) scan() []any {
	return []any{&c.id, &c.client, &c.owner, &c.record, &c.weight, &c.capacity, &c.since, &c.ends, &c.delay}
}

// add completes an entry and puts it into a queue.
func (c *columns) add(q *driver.Queue, e driver.Entry) {
	e.ID, e.Client, e.Owner, e.Record = string(c.id), string(c.client), string(c.owner), string(c.record)
	e.Weight, e.Since, e.Ends, e.Delay = c.weight.Int64, c.since.Int64, c.ends.Int64, c.delay.Int64
	q.Capacity, q.Last = c.capacity.Int64, max(q.Last, e.Ticket)
	q.Entries = append(q.Entries, e)
}

// snapshot returns the claims of all queues as they are.
func (t *transaction) snapshot() map[key][]driver.Entry {
	before := make(map[key][]driver.Entry, len(t.rows))
	for k, n := range t.rows {
		before[k] = slices.Clone(n.queue.Entries)
	}
	return before
}

// do does the steps. It returns the name of the first that cannot be written, since it has no row.
func (t *transaction) do(steps []sqldb.Step) (missing *string) {
	for _, step := range steps {
		q := &driver.Queue{}
		n := t.rows[keyOf(step.Name)]
		if n != nil {
			q = n.queue
		}
		step.Do(t.now, stamp(t.now), q)
		if n == nil && len(q.Entries) > 0 {
			return &step.Name
		}
	}
	return nil
}

// stamp is the time as a ticket, 0 if the server's clock is so far off that tickets would run out of numbers.
func stamp(now int64) int64 {
	if 0 < now && now < 1<<52 {
		return now
	}
	return 0
}
