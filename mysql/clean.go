package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// clean deletes the rows of names that were idle for so long, at most so many, and returns how many it has deleted. The
// counter of a name that comes back goes on above floor, which is at least the last ticket of every name that went.
func (s *store) clean(ctx context.Context, idle time.Duration, most int) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	// Without locks, so as not to wait for names in use. Tickets are at least the time at which they were given.
	var keys []string
	err = s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
		keys = keys[:0]
		q := s.place.fill("SELECT n.`hash` FROM `{prefix}name` n WHERE n.`last` < {clock} - %d AND " + unused + " LIMIT %d")
		return s.query(ctx, conn, text{fmt.Sprintf(q, idle.Microseconds(), most)}, func(r *sql.Rows) error {
			var hash []byte
			err := r.Scan(&hash)
			keys = append(keys, quote(hash))
			return err
		})
	})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	n, err = s.remove(ctx, conn, keys, idle)
	if err != nil {
		drop(conn)
	}
	return n, s.definite(ctx, err)
}

const unused = "n.`ends` = 0 AND NOT EXISTS (SELECT 1 FROM `{prefix}claim` c WHERE c.`hash` = n.`hash`)"

// remove deletes those of the rows that are still idle once they are locked.
func (s *store) remove(ctx context.Context, conn *sql.Conn, keys []string, idle time.Duration) (n int, err error) {
	var (
		still []string
		floor int64
	)
	q := s.place.fill("SELECT n.`hash`, n.`last` FROM `{prefix}name` n WHERE n.`hash` IN (%s) AND n.`last` < {clock} - %d AND " + unused + " FOR UPDATE")
	lock := text{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", fmt.Sprintf(q, strings.Join(keys, ", "), idle.Microseconds())}
	err = s.query(ctx, conn, lock, func(r *sql.Rows) error {
		var (
			hash []byte
			last int64
		)
		err := r.Scan(&hash, &last)
		still, floor = append(still, quote(hash)), max(floor, last)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(still) == 0 {
		return 0, s.exec(ctx, conn, text{"ROLLBACK"})
	}
	return len(still), s.exec(ctx, conn, text{
		s.place.fill(fmt.Sprintf("UPDATE `{prefix}meta` SET `floor` = GREATEST(`floor`, %d)", floor)),
		s.place.fill("DELETE FROM `{prefix}name` WHERE `hash` IN (" + strings.Join(still, ", ") + ")"),
		"COMMIT",
	})
}
