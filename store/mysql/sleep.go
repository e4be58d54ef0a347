package mysql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// rests returns a text that polls and then sleeps. Without a block, a KILL between two statements of a text ends the text,
// and the rest has no answer: after a hundred KILLs by four clients at random moments, a client got no more wakeups until it
// gave the text up. In a block the KILL is an error.
func (s *store) rests(look string, at sleepPlace) string {
	if s.blocks && !s.apart.Load() {
		return block + look + "; " + at.text() + "; END"
	}
	return look + "; " + at.text()
}

// restsMost bounds the time that a text may take to answer.
const restsMost = sleepFor + 2*time.Second

// sleep reads the claims of the last poll, notifies the claims that hold, and then sleeps. It returns the cause of the end
// of its sleep. It calls woken if there may be more changes, and recheck when a wakeup would end it.
func (s *store) sleep(ctx context.Context, conn *sql.Conn, at sleepPlace, woken, recheck func()) (end awakening, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restsMost, errSlow)
	defer cancel()
	var answer sql.NullInt64
	if !s.batches {
		err = conn.QueryRowContext(ctx, at.text()).Scan(&answer)
	} else {
		answer, err = s.lookAndSleep(ctx, conn, at, woken, recheck)
	}
	switch {
	case number(err) == interrupted:
		end = wasWoken
	case err != nil:
		if number(err) == syntax { // a changed setting makes the server refuse a block
			s.apart.Store(true)
		}
		return slept, err
	default:
		end = at.ends(answer)
	}
	if end == wasWoken && !s.batches {
		woken()
	}
	return end, nil
}

// lookAndSleep polls and sleeps by one text.
func (s *store) lookAndSleep(ctx context.Context, conn *sql.Conn, at sleepPlace, woken, recheck func()) (answer sql.NullInt64, err error) {
	g, result := s.polled.Load(), &sqldb.PollResult{}
	known := g != nil && len(g.Names) == 0 && 0 < len(g.Claims) && len(g.Claims) <= lookBatch
	look, each := "SELECT 0", func(*sql.Rows) error { return nil }
	if known {
		result.States = make([]sqldb.State, len(g.Claims))
		look, each = s.asks(result, g.Claims, result.States, asking{})
	}
	ctx, cancel := context.WithCancel(ctx)
	rows, err := conn.QueryContext(ctx, s.rests(look, at))
	if err != nil {
		cancel()
		return answer, err
	}
	defer rows.Close()
	defer cancel() // otherwise Close would wait for the end of the sleep
	for rows.Next() {
		if err := each(rows); err != nil {
			return answer, err
		}
	}
	if err := rows.Err(); err != nil {
		return answer, err
	}
	recheck()
	if !known || !s.tell(g, result) || s.polled.Load() != g {
		woken()
	}
	if !rows.NextResultSet() {
		return answer, errors.Join(rows.Err(), errShort)
	}
	for rows.Next() {
		if err := rows.Scan(&answer); err != nil {
			return answer, err
		}
	}
	return answer, errors.Join(rows.Err(), rows.Close())
}

// tell notifies the claims that hold, and reports whether all of them were found.
func (s *store) tell(g *sqldb.PollRequest, result *sqldb.PollResult) (all bool) {
	all = true
	var woken []driver.Entry
	for i, state := range result.States {
		switch {
		case state.Ends <= result.Now:
			all = false
		case state.Holds:
			woken = append(woken, driver.Entry{ID: g.Claims[i].ID, Ticket: g.Claims[i].Ticket})
		}
	}
	s.woke(woken...)
	return all
}
