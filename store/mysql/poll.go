package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// reading runs f on a connection, and drops the connection if f fails. Whatever the error, nothing was changed.
func (s *store) reading(ctx context.Context, f func(ctx context.Context, conn *sql.Conn) error) error {
	ctx, cancel := driver.WithPatience(ctx, patience, errSlow)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for n := 1; ; n++ {
		conn, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		if err = f(ctx, conn); err != nil {
			drop(conn)
		}
		conn.Close()
		if err == nil || n == attempts || ctx.Err() != nil || !broken(err) {
			return s.definite(ctx, err)
		}
	}
}

// Read implements [sqldb.Store].
func (s *store) Read(ctx context.Context, query *driver.Query) (list []sqldb.Named, now int64, err error) {
	err = s.reading(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		var (
			rows  map[key]*row
			names []string
			q     string
		)
		if query.Name != "" {
			names = []string{query.Name}
			q = s.selection(names)
		} else {
			q = s.prefixed(query.Prefix)
		}
		rows, now, err = s.rows(ctx, conn, q, names)
		list = list[:0]
		for _, n := range rows {
			slices.SortFunc(n.queue.Entries, func(a, b driver.Entry) int { return int(a.Ticket - b.Ticket) })
			list = append(list, sqldb.Named{Name: n.name, Queue: n.queue})
		}
		return err
	})
	slices.SortFunc(list, func(a, b sqldb.Named) int { return strings.Compare(a.Name, b.Name) })
	return list, now, err
}

// prefixed is the statement that reads the queues of all names that begin with a prefix.
func (s *store) prefixed(prefix string) string {
	return s.place.fill("SELECT {clock},"+nameColumns+claimColumns+queues+"WHERE (n.`queued` OR n.`ends` > 0) AND ") +
		fmt.Sprintf("LEFT(n.`name`, %d) = %s", len(prefix), quote([]byte(prefix)))
}

const (
	pollSoon  = 2 * time.Millisecond
	pollFast  = 8 * time.Millisecond
	pollSlow  = 30 * time.Millisecond
	pollLeast = 250 * time.Millisecond
	pollWoken = 400 * time.Millisecond // while wakeups come
	pollAgain = 500 * time.Millisecond // while the server cannot be asked
)

// Pause implements [sqldb.Store]. Locks that change hands do so every few milliseconds. For a lock that is held for some
// seconds, the next client polls 33 times a second; clients behind it poll less often, and all poll less often later.
func (s *store) Pause(quiet time.Duration, ahead int) time.Duration {
	switch {
	case s.failing:
		return pollAgain
	case s.wakeups.heard():
		return pollWoken
	case ahead > 1 && quiet > time.Second:
		return sqldb.Slow(quiet, min(time.Duration(ahead)*pollSlow, pollLeast), pollLeast)
	case ahead > 1:
		return pollSlow
	case quiet < 50*time.Millisecond:
		return pollSoon
	case quiet < time.Second:
		return pollFast
	default:
		return sqldb.Slow(quiet, pollSlow, pollLeast)
	}
}

// lookBatch is how many claims one statement asks for.
const lookBatch = 256

// Poll implements [sqldb.Store]. While wakeups come, it does not count the claims ahead, since no pause depends on them.
func (s *store) Poll(ctx context.Context, g *sqldb.PollRequest) (*sqldb.PollResult, error) {
	s.polled.Store(g)
	result := &sqldb.PollResult{States: make([]sqldb.State, len(g.Claims)), Queues: map[string]*driver.Queue{}}
	count := !s.wakeups.heard()
	err := s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
		for from := 0; from < len(g.Claims); from += lookBatch {
			to := min(from+lookBatch, len(g.Claims))
			if err := s.states(ctx, conn, result, g.Claims[from:to], result.States[from:to], asking{count, g.Kept}); err != nil {
				return err
			}
		}
		for names := range slices.Chunk(g.Names, lookBatch) {
			rows, now, err := s.rows(ctx, conn, s.selection(names), names)
			if err != nil {
				return err
			}
			for _, n := range rows {
				result.Queues[n.name] = n.queue
			}
			result.Now = max(result.Now, now)
		}
		return nil
	})
	s.failing = driver.IsUnreachable(err)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(result.States, func(state sqldb.State) bool { return state.Holds }) && !g.Fresh {
		s.wakeups.found()
	}
	if seen := print(g, result); seen != s.seen || g.Fresh {
		s.seen = seen
		return result, nil
	}
	return nil, nil
}

// states reads the states of claims.
func (s *store) states(
	ctx context.Context, conn *sql.Conn, result *sqldb.PollResult, claims []sqldb.Waiting, states []sqldb.State, more asking,
) error {
	q, each := s.asks(result, claims, states, more)
	return s.query(ctx, conn, text{q}, each)
}

// asking selects the optional parts of a poll: the number of claims ahead, which is two thirds of the server's work, and the
// first end of a kept claim.
type asking struct{ ahead, kept bool }

// asks returns the statement that reads the states of claims, and the function that takes its rows.
func (s *store) asks(
	result *sqldb.PollResult, claims []sqldb.Waiting, states []sqldb.State, more asking,
) (q string, each func(*sql.Rows) error) {
	type place struct {
		hash   key
		ticket int64
	}
	at, which := map[place][]int{}, make([]string, len(claims))
	for i, c := range claims {
		k := keyOf(c.Name)
		p := place{k, c.Ticket}
		at[p] = append(at[p], i)
		which[i] = fmt.Sprintf(oneClaim, k, c.Ticket)
	}
	return s.looking(more) + strings.Join(which, " OR "), func(r *sql.Rows) error {
		var (
			hash, id []byte
			p        place
			state    sqldb.State
		)
		if err := r.Scan(&result.Now, &hash, &p.ticket, &id, &state.Ends, &state.Holds, &state.Ahead, &state.Kept); err != nil {
			return err
		}
		copy(p.hash[:], hash)
		for _, i := range at[p] {
			if claims[i].ID == string(id) {
				states[i] = state
			}
		}
		return nil
	}
}

// oneClaim picks a claim by the hash of its name and its ticket.
const oneClaim = "c.`hash` = %v AND c.`ticket` = %d"

// looking is the statement up to the list of claims. A claim that is alone in the row of its name does not wait. If the
// claim right before another one holds, all claims before that one hold.
func (s *store) looking(more asking) string {
	const before = " FROM `{prefix}claim` a WHERE a.`hash` = c.`hash` AND a.`ticket` < c.`ticket`"
	ahead, kept := "0", "0"
	if more.ahead {
		ahead = "(SELECT COUNT(*)" + before + ")"
	}
	if more.kept {
		kept = "IF((SELECT a.`told`" + before + " ORDER BY a.`ticket` DESC LIMIT 1), " +
			"COALESCE((SELECT MIN(a.`ends`)" + before + " AND a.`departed`), 0), 0)"
	}
	return s.place.fill("SELECT {clock}, c.`hash`, c.`ticket`, c.`id`, c.`ends`, c.`told` AND NOT c.`departed`, " +
		ahead + ", " + kept + " FROM `{prefix}claim` c WHERE ")
}

// Gone implements [sqldb.Waker]. One statement sees a claim in the row of its name or in a row of its own.
func (s *store) Gone(ctx context.Context, claims []sqldb.Waiting) (ids []string, err error) {
	stands := map[string]bool{}
	for some := range slices.Chunk(claims, lookBatch) {
		names, which := make([]string, len(some)), make([]string, len(some))
		for i, c := range some {
			names[i], which[i] = c.Name, fmt.Sprintf(oneClaim, keyOf(c.Name), c.Ticket)
		}
		q := s.place.fill("SELECT n.`id` FROM `{prefix}name` n WHERE n.`ends` > 0 AND ") + in(names) +
			s.place.fill(" UNION ALL SELECT c.`id` FROM `{prefix}claim` c WHERE ") + strings.Join(which, " OR ")
		err := s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
			return s.query(ctx, conn, text{q}, func(r *sql.Rows) error {
				var id []byte
				err := r.Scan(&id)
				stands[string(id)] = true
				return err
			})
		})
		if err != nil {
			return nil, err
		}
	}
	for _, c := range claims {
		if !stands[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

// print returns a text that changes whenever an answer has news.
func print(g *sqldb.PollRequest, s *sqldb.PollResult) string {
	var lines []string
	for i, state := range s.States {
		lines = append(lines, fmt.Sprint(g.Claims[i].ID, state.Ends == 0, state.Holds, state.Ahead, state.Kept))
	}
	for name, q := range s.Queues {
		for _, e := range q.Entries {
			lines = append(lines, fmt.Sprint(name, e.Ticket, e.Notified, e.Left, e.Weight, e.Record))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
