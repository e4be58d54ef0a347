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
	"github.com/stilelock/stile/internal/work"
	"github.com/stilelock/stile/store/sqldb"
)

// attempts bounds the repetitions of a transaction that others blocked.
const attempts = 10

// Change implements [sqldb.Store]: one round trip locks the rows of the names and reads their queues, and another writes and
// commits. After an error of the second, the outcome may be unknown.
//
// A client that stands still between the two keeps the row of its name locked. So that it delays no other name, a change of
// several steps skips locked rows. Then the steps on these rows wait one by one, each in a transaction of its own.
func (s *store) Change(ctx context.Context, steps []sqldb.Step) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if len(steps) == 1 || !s.skips {
		_, err := s.change(ctx, steps, false)
		return err
	}
	locked, err := s.change(ctx, steps, true)
	if err != nil {
		return err
	}
	const atOnce = 2 // so that connections are left for others
	work.Each(len(locked), atOnce, func(i int) {
		if _, err := s.change(ctx, []sqldb.Step{locked[i]}, false); err != nil {
			locked[i].Fail(err)
		}
	})
	return nil
}

// change does steps in one transaction, and repeats it if others blocked it. With skip, it leaves out the steps on locked
// rows, and returns them.
func (s *store) change(ctx context.Context, steps []sqldb.Step, skip bool) (locked []sqldb.Step, err error) {
	for n := 1; ; n++ {
		conn, err := s.acquire(ctx)
		if err != nil {
			return nil, err
		}
		locked, err = s.attempt(ctx, conn, steps, skip)
		conn.Close()
		if err == nil || n == attempts || ctx.Err() != nil || !driver.NotApplied(err) || !again(err) {
			return locked, err
		}
		if err := s.pause(ctx, time.Duration(n)*rand.N(2*time.Millisecond)); err != nil {
			return nil, err
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
func (s *store) attempt(
	ctx context.Context, conn *sql.Conn, steps []sqldb.Step, skip bool,
) (locked []sqldb.Step, err error) {
	t := &transaction{s: s, conn: conn, skip: skip}
	err = t.work(ctx, steps)
	dropped := err != nil && faultOf(err).drop
	switch {
	case err != nil: // nothing was written: the connection may be lost, or another server may accept the writes
		err = s.definite(ctx, err)
	case len(t.writes) > 0:
		err = s.exec(ctx, conn, append(t.writes, "COMMIT"))
		dropped = err != nil && faultOf(err).drop
		if err = s.judged(ctx, conn, err); err == nil {
			return t.locked, nil
		}
	}
	if dropped {
		drop(conn)
	} else {
		t.undo(ctx)
	}
	return t.locked, err
}

// A transaction is the state of a change.
type transaction struct {
	s      *store
	conn   *sql.Conn
	skip   bool         // locked rows are left out
	locked []sqldb.Step // the steps on locked rows
	rows   map[key]*row
	now    int64
	writes text
}

// undo rolls the transaction back, if necessary by dropping its connection.
func (t *transaction) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		drop(t.conn)
	}
}

// A key identifies a name in the tables.
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

// work begins a transaction, does the steps, and collects their writes.
func (t *transaction) work(ctx context.Context, steps []sqldb.Step) error {
	free, err := t.read(ctx, steps, text{"START TRANSACTION"})
	if err != nil {
		return err
	}
	before := t.snapshot()
	missing := t.do(free)
	if missing == nil {
		return t.save(before)
	}
	// The row of the name is made first. The insert waits for a client that makes or deletes the row at the same time. A
	// locking read of a missing row would lock a gap, and two such reads would wait for each other.
	free, err = t.read(ctx, steps, text{t.s.place.fill("INSERT INTO `{prefix}name` (`hash`, `name`, `last`, `head`) " +
		"VALUES (" + keyOf(*missing).String() + ", " + quote([]byte(*missing)) + ", 0, 0) " +
		"ON DUPLICATE KEY UPDATE `last` = `last`")})
	if err != nil {
		return err
	}
	if err := t.begun(ctx); err != nil {
		return err
	}
	before = t.snapshot()
	if missing := t.do(free); missing != nil {
		return errors.New("the row of the name cannot be made")
	}
	return t.save(before)
}

// read runs other statements, then locks the rows of the steps' names and reads their queues. It returns the steps whose
// rows it has locked, or that have no row.
func (t *transaction) read(ctx context.Context, steps []sqldb.Step, first text) (free []sqldb.Step, err error) {
	if t.s.owned == nil && first[0] == "START TRANSACTION" {
		first = append(text{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED"}, first...)
	}
	names := make([]string, len(steps))
	for i, step := range steps {
		names[i] = step.Name
	}
	locked, err := t.lock(ctx, first, names)
	for err == nil && !t.skip && len(locked) > 0 { // their rows were made after the statement that locks
		locked, err = t.lock(ctx, nil, names)
	}
	t.locked = nil
	for _, step := range steps {
		if locked[keyOf(step.Name)] {
			t.locked = append(t.locked, step)
		} else {
			free = append(free, step)
		}
	}
	return free, err
}

// lock locks the rows of names, by their primary key and no other rows, and reads their claims. It reads the claims without
// a lock: at read committed, each read sees everything that was committed before it. A locking read of the claims, or one
// that may scan, would wait for rows of other names. It returns the existing rows that were skipped.
func (t *transaction) lock(ctx context.Context, first text, names []string) (skipped map[key]bool, err error) {
	in := in(names)
	rows := t.s.place.fill("SELECT {clock},"+strings.TrimSuffix(nameColumns, ",")+
		" FROM `{prefix}name` n FORCE INDEX (PRIMARY) WHERE ") + in + " FOR UPDATE"
	if t.skip {
		rows += " SKIP LOCKED"
	}
	claims := t.s.place.fill("SELECT n.`hash`,"+claimColumns+queues+"WHERE ") + in
	t.rows, skipped = map[key]*row{}, map[key]bool{}
	err = t.s.results(ctx, t.conn, first, text{rows, claims}, func(r *sql.Rows) error {
		var n nameRow
		if err := r.Scan(append([]any{&t.now}, n.scan()...)...); err != nil {
			return err
		}
		return n.add(t.rows)
	}, func(r *sql.Rows) error {
		var (
			hash []byte
			c    claimRow
		)
		if err := r.Scan(append([]any{&hash}, c.scan()...)...); err != nil {
			return err
		}
		if n := t.rows[key(hash)]; n != nil {
			c.add(n.queue)
		} else {
			skipped[key(hash)] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return skipped, check(t.rows, names)
}

// begun makes the counters of new rows start above the deleted ones. A client that deleted an earlier row of these names has
// committed by now.
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

// in is the condition that picks the rows of names.
func in(names []string) string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = keyOf(name).String()
	}
	slices.Sort(keys)
	return "n.`hash` IN (" + strings.Join(slices.Compact(keys), ", ") + ")"
}

// selection is the statement that reads the queues of names without a lock.
func (s *store) selection(names []string) string {
	return s.place.fill("SELECT {clock},"+nameColumns+claimColumns+queues+"WHERE ") + in(names)
}

const (
	nameColumns = " n.`hash`, n.`name`, n.`last`, n.`queued`, " +
		"n.`id`, n.`client`, n.`owner`, n.`record`, n.`weight`, n.`capacity`, n.`since`, n.`ends`, n.`delay`,"
	claimColumns = " c.`ticket`, c.`id`, c.`client`, c.`owner`, c.`record`, " +
		"c.`weight`, c.`capacity`, c.`since`, c.`ends`, c.`delay`, c.`told`, c.`departed`"
)

// queues are the names with the claims of their queues.
const queues = " FROM `{prefix}name` n LEFT JOIN `{prefix}claim` c ON c.`hash` = n.`hash` AND c.`ticket` >= n.`head` "

// rows reads the rows of a selection.
func (s *store) rows(ctx context.Context, conn *sql.Conn, selection string, names []string) (map[key]*row, int64, error) {
	read := reader{rows: map[key]*row{}}
	if err := s.query(ctx, conn, text{selection}, func(r *sql.Rows) error { return read.row(r) }); err != nil {
		return nil, 0, err
	}
	return read.rows, read.now, check(read.rows, names)
}

// A reader takes the rows of a selection.
type reader struct {
	rows map[key]*row
	now  int64
}

// row takes a row that has these columns before the time.
func (a *reader) row(r *sql.Rows, before ...any) error {
	var (
		n nameRow
		c claimRow
	)
	if err := r.Scan(slices.Concat(before, []any{&a.now}, n.scan(), c.scan())...); err != nil {
		return err
	}
	if err := n.add(a.rows); err != nil {
		return err
	}
	c.add(a.rows[key(n.hash)].queue)
	return nil
}

// check sorts the queues of names, and returns an error if a row belongs to another name than the requested one.
func check(rows map[key]*row, names []string) error {
	for _, name := range names {
		n := rows[keyOf(name)]
		if n == nil {
			continue
		}
		if n.name != name {
			return fmt.Errorf("%w: the row of the name %q has another", driver.ErrForeign, name)
		}
		slices.SortFunc(n.queue.Entries, func(a, b driver.Entry) int { return int(a.Ticket - b.Ticket) })
	}
	return nil
}

// A nameRow is a row of the table of names.
type nameRow struct {
	hash, name []byte
	last       int64
	queued     bool
	lone       columns
}

func (n *nameRow) scan() []any {
	return append([]any{&n.hash, &n.name, &n.last, &n.queued}, n.lone.scan()...)
}

// add makes the queue of the name, unless it exists, with the claim that is in the row.
func (n *nameRow) add(rows map[key]*row) error {
	if len(n.hash) != sha256.Size {
		return fmt.Errorf("%w: the key of a name has %d bytes", driver.ErrForeign, len(n.hash))
	}
	if rows[key(n.hash)] != nil {
		return nil
	}
	r := &row{
		name: string(n.name), last: n.last, queued: n.queued, lone: n.lone.ends.Int64 > 0,
		queue: &driver.Queue{Last: n.last},
	}
	rows[key(n.hash)] = r
	if r.lone {
		n.lone.add(r.queue, driver.Entry{Ticket: n.last, Notified: true})
	}
	return nil
}

// A claimRow is a row of the table of claims, or of none if its ticket is NULL.
type claimRow struct {
	ticket         sql.NullInt64
	claim          columns
	told, departed sql.NullBool
}

func (c *claimRow) scan() []any {
	return append(append([]any{&c.ticket}, c.claim.scan()...), &c.told, &c.departed)
}

func (c *claimRow) add(q *driver.Queue) {
	if c.ticket.Valid {
		c.claim.add(q, driver.Entry{Ticket: c.ticket.Int64, Notified: c.told.Bool, Left: c.departed.Bool})
	}
}

// Columns are the columns of a claim, which both tables have.
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

// snapshot returns the present claims of all queues.
func (t *transaction) snapshot() map[key][]driver.Entry {
	before := make(map[key][]driver.Entry, len(t.rows))
	for k, n := range t.rows {
		before[k] = slices.Clone(n.queue.Entries)
	}
	return before
}

// do does the steps. It returns the name of the first step that cannot be written because the name has no row.
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

// stamp returns the time as a ticket; 0 if the server's clock is so wrong that tickets would run out of numbers.
func stamp(now int64) int64 {
	if 0 < now && now < 1<<52 {
		return now
	}
	return 0
}
