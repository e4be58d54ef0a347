package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	cleanEvery = time.Hour
	cleanIdle  = time.Hour
	cleanTxs   = 24 * time.Hour // for rows of LockTx
	cleanMost  = 500
)

// tidy deletes the rows of names that were not used for long: at once if no client has done so for a while, since many
// clients live no longer than a job, and then from time to time. After failures it tries again, less and less often.
func (s *store) tidy() {
	var pause, again time.Duration
	for s.pause(s.ctx, pause) == nil {
		if s.round() == nil {
			pause, again = cleanEvery/2+rand.N(cleanEvery), 0
		} else {
			again = min(max(2*again, time.Second), cleanEvery)
			pause = again
		}
	}
}

// round cleans if a cleaning is due.
func (s *store) round() error {
	due, err := s.due(s.ctx, cleanEvery)
	if err != nil || !due {
		return err
	}
	for n := cleanMost; n == cleanMost && err == nil; {
		n, err = s.clean(s.ctx, cleanIdle, cleanMost)
	}
	for n := cleanMost; n == cleanMost && err == nil; {
		n, err = s.cleanTx(s.ctx, cleanTxs, cleanMost)
	}
	return err
}

// due reports whether nobody has cleaned for a period. The turn of a row of table tx that belongs to no name is the time of
// the last cleaning.
func (s *store) due(ctx context.Context, every time.Duration) (due bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	q := s.place.fill(fmt.Sprintf("SELECT `turn` NOT BETWEEN {clock} - %d AND {clock} FROM `{prefix}tx` WHERE `hash` = %v",
		every.Microseconds(), cleaned))
	err = conn.QueryRowContext(ctx, q).Scan(&due)
	if errors.Is(err, sql.ErrNoRows) {
		due = true
		// The first row says that cleaning has been due for a minute. Then no transaction suspects that it sees a state that
		// is days old. A row that says that it is due just now would not do: another client may read its clock earlier, see
		// this row, and find that no cleaning is due.
		_, err = conn.ExecContext(ctx, s.place.fill(fmt.Sprintf("INSERT IGNORE INTO `{prefix}tx` (`hash`, `name`, `turn`) "+
			"VALUES (%v, '', {clock} - %d)", cleaned, (every+time.Minute).Microseconds())))
	}
	return due, s.judged(ctx, conn, err)
}

// cleaned is the key of the row for the time of the last cleaning. No name has this key.
var cleaned key

// clean deletes at most a number of rows of names that were idle for a period, with their claims that ran out as long ago,
// and returns how many rows it has deleted. The counter of a returning name starts above floor, which is at least the last
// ticket of every deleted name.
func (s *store) clean(ctx context.Context, idle time.Duration, most int) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	// These reads take no locks, and so do not wait for names in use. A ticket is at least the time at which it was given.
	list, err := s.keys(ctx, "SELECT n.`hash` FROM `{prefix}name` n WHERE "+unused(idle)+" AND NOT EXISTS "+
		"(SELECT 1 FROM `{prefix}claim` c WHERE c.`hash` = n.`hash` AND "+lives(idle)+") LIMIT "+fmt.Sprint(most))
	for part := range slices.Chunk(list, s.cleanAtOnce()) {
		var more int
		if err == nil {
			more, err = s.changing(ctx, func(conn *sql.Conn) (int, error) { return s.remove(ctx, conn, part, idle) })
		}
		n += more
	}
	return n, err
}

// cleanAtOnce is how many rows a transaction may lock. A server that cannot skip locked rows makes it wait for them; then it
// is one row, so that no other row stays locked during the wait.
func (s *store) cleanAtOnce() int {
	if s.skips {
		return cleanMost
	}
	return 1
}

// unused is the condition for the row of a name that was idle for a period, by the columns of the row itself. An expired
// claim does not count.
func unused(idle time.Duration) string {
	return fmt.Sprintf("n.`last` < {clock} - %[1]d AND "+
		"(n.`ends` = 0 OR n.`ends` + n.`delay` < LEAST({clock}, {clock} - %[1]d))", idle.Microseconds())
}

// lives is the condition for a claim that had not run out by a time.
func lives(idle time.Duration) string {
	return fmt.Sprintf("c.`ends` + c.`delay` >= LEAST({clock}, {clock} - %d)", idle.Microseconds())
}

// keys returns the keys that a statement selects, as literals, by a read without locks.
func (s *store) keys(ctx context.Context, statement string) (list []string, err error) {
	err = s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
		list = list[:0]
		return s.query(ctx, conn, text{s.place.fill(statement)}, func(r *sql.Rows) error {
			var hash []byte
			err := r.Scan(&hash)
			list = append(list, quote(hash))
			return err
		})
	})
	return list, err
}

// changing runs a transaction on a connection, and drops the connection if the transaction fails.
func (s *store) changing(ctx context.Context, f func(conn *sql.Conn) (int, error)) (n int, err error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if n, err = f(conn); err != nil {
		drop(conn)
	}
	return n, s.definite(ctx, err)
}

// committed begins a read committed transaction.
var committed = text{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"}

// skipping ends a statement that locks rows: it leaves out the rows that others have locked.
func (s *store) skipping() string {
	if s.skips {
		return " FOR UPDATE SKIP LOCKED"
	}
	return " FOR UPDATE"
}

// remove deletes the rows that are still idle once they are locked.
func (s *store) remove(ctx context.Context, conn *sql.Conn, keys []string, idle time.Duration) (int, error) {
	var (
		floor int64
		still = map[string]bool{}
		in    = "`hash` IN (" + strings.Join(keys, ", ") + ")"
	)
	names := s.place.fill("SELECT n.`hash`, n.`last` FROM `{prefix}name` n FORCE INDEX (PRIMARY) " +
		"WHERE n." + in + " AND " + unused(idle) + s.skipping())
	claims := s.place.fill("SELECT c.`hash` FROM `{prefix}claim` c WHERE c." + in + " AND " + lives(idle))
	lasts := map[string]int64{}
	err := s.results(ctx, conn, committed, text{names, claims}, func(r *sql.Rows) error {
		var (
			hash []byte
			last int64
		)
		err := r.Scan(&hash, &last)
		still[quote(hash)], lasts[quote(hash)] = true, last
		return err
	}, func(r *sql.Rows) error {
		var hash []byte
		err := r.Scan(&hash)
		delete(still, quote(hash))
		return err
	})
	if err != nil {
		return 0, err
	}
	var writes text
	for k := range still { // by the key of each row: a statement for many may scan, and wait for rows of other names
		floor = max(floor, lasts[k])
		writes = append(writes,
			s.place.fill("DELETE FROM `{prefix}claim` WHERE `hash` = "+k),
			s.place.fill("DELETE FROM `{prefix}name` WHERE `hash` = "+k))
	}
	if len(still) == 0 {
		return 0, s.exec(ctx, conn, text{"ROLLBACK"})
	}
	return len(still), s.exec(ctx, conn, append(writes,
		s.place.fill(fmt.Sprintf("UPDATE `{prefix}meta` SET `floor` = GREATEST(`floor`, %d)", floor)), "COMMIT"))
}

var errNoted = errors.New("the note of the last cleaning is in use")

// cleanTx deletes at most a number of rows of LockTx that nobody locked for a period, and notes when it did so. It returns
// how many rows it has read.
//
// A transaction that began to read before another one had the lock must notice this, even if the row was deleted meanwhile.
// So cleanTx first marks a row by a negative turn. That needs the row's lock, so any transaction that had it has committed.
// The row is deleted if nobody has locked it for another period. A transaction that inserts the row again may have begun
// before that. It compares the note in its snapshot with the latest note; see lockRow.
func (s *store) cleanTx(ctx context.Context, idle time.Duration, most int) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var list []string
	old := fmt.Sprintf("ABS(`turn`) < {clock} - %d AND `name` <> ''", idle.Microseconds())
	if s.skips {
		if list, err = s.keys(ctx, "SELECT `hash` FROM `{prefix}tx` WHERE "+old+" LIMIT "+fmt.Sprint(most)); err != nil {
			return 0, err
		}
	}
	return s.changing(ctx, func(conn *sql.Conn) (int, error) {
		writes := text{s.place.fill("UPDATE `{prefix}tx` SET `turn` = {clock} WHERE `hash` = " + cleaned.String()), "COMMIT"}
		if len(list) == 0 {
			return 0, s.exec(ctx, conn, append(slices.Clip(committed), writes...))
		}
		in := strings.Join(append(slices.Clip(list), cleaned.String()), ", ")
		q := s.place.fill("SELECT `hash`, `turn` < 0 FROM `{prefix}tx` FORCE INDEX (PRIMARY) " +
			"WHERE `hash` IN (" + in + ") AND (`name` = '' OR " + old + ")" + s.skipping())
		noted := false
		err := s.results(ctx, conn, committed, text{q}, func(r *sql.Rows) error {
			var (
				hash   []byte
				marked bool
			)
			if err := r.Scan(&hash, &marked); err != nil {
				return err
			}
			if key(hash) == cleaned {
				noted = true
				return nil
			}
			change := "UPDATE `{prefix}tx` SET `turn` = -{clock}"
			if marked {
				change = "DELETE FROM `{prefix}tx`"
			}
			writes = append(text{s.place.fill(change + " WHERE `hash` = " + quote(hash))}, writes...)
			return nil
		})
		if err != nil {
			return 0, err
		}
		if !noted { // no row is deleted without a note, since transactions compare it
			return 0, errors.Join(s.exec(ctx, conn, text{"ROLLBACK"}), errNoted)
		}
		return len(list), s.exec(ctx, conn, writes)
	})
}
