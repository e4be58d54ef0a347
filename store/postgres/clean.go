package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	cleanEvery = time.Hour
	cleanIdle  = time.Hour
	cleanMost  = 1000
)

// tidy deletes the rows of names that were not used for long: at once if no client has done so for a while, since many
// clients live no longer than a job, and then from time to time. After failures it tries again, less and less often.
func (d *Driver) tidy() {
	var pause, again time.Duration
	if d.revision < 2 { // their tables do not know when they were cleaned
		pause = cleanEvery/2 + rand.N(cleanEvery)
	}
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-d.link.Context().Done():
			timer.Stop()
			return
		}
		n, err := d.due(d.link.Context(), cleanEvery)
		for n == cleanMost && err == nil {
			n, err = d.clean(d.link.Context(), cleanIdle, cleanMost)
		}
		if pause, again = cleanEvery/2+rand.N(cleanEvery), min(max(2*again, time.Second), cleanEvery); err != nil {
			pause = again
		} else {
			again = 0
		}
	}
}

// due cleans if nobody has cleaned for a period.
func (d *Driver) due(ctx context.Context, every time.Duration) (n int64, err error) {
	if d.revision < 2 {
		return d.clean(ctx, cleanIdle, cleanMost)
	}
	args := []any{micros(every), micros(cleanIdle), int32(cleanMost)}
	err = d.link.Query(ctx, d.statements.tidy, args, func(rows pgx.Rows) error { return rows.Scan(&n) })
	return n, err
}

// clean deletes at most a number of rows of names that were idle for a period, and returns how many it has deleted.
func (d *Driver) clean(ctx context.Context, idle time.Duration, most int) (n int64, err error) {
	args := []any{micros(idle), int32(most)}
	err = d.link.Query(ctx, d.statements.clean, args, func(rows pgx.Rows) error { return rows.Scan(&n) })
	return n, err
}
