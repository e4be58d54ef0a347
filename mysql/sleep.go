package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/sqldb"
)

// parked is the user-level lock for which all clients but one wait while they sleep. Who has it keeps it as long as the connection.
const parked = "'stile-bell-parked'"

// sleepsText says whether somebody ended it before its time. MariaDB calls that an error.
var sleepsText = fmt.Sprintf("SELECT CASE GET_LOCK(%s, %d) WHEN 0 THEN 0 WHEN 1 THEN SLEEP(%[2]d) ELSE 1 END", parked, int(sleepFor/time.Second))

// rests is a text that looks and then sleeps. A KILL that comes between two statements of a text ends the text, and the rest of it has no
// answer: four who rang at any moment made a client deaf after a hundred rings, until it gave the text up. In a block it is an error.
func (s *store) rests(look string) string {
	text := look + "; " + sleepsText
	if s.blocks && !s.apart.Load() {
		text = block + text + "; END"
	}
	return text
}

// restsMost is when a text without an answer is given up.
const restsMost = 2*sleepFor + 2*time.Second

// sleep looks at the claims of the last look, tells those that hold, and reports whether it was ended before its time. It has
// rung called where there may be more to see.
func (s *store) sleep(ctx context.Context, conn *sql.Conn, rung func()) (rang bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restsMost, errSlow)
	defer cancel()
	if !s.batches {
		err = conn.QueryRowContext(ctx, sleepsText).Scan(&rang)
	} else {
		rang, err = s.lookAndSleep(ctx, conn, rung)
	}
	rang = rang || number(err) == interrupted
	if rang {
		err = nil
	}
	if rang && !s.batches {
		rung()
	}
	return rang, err
}

// lookAndSleep is one text.
func (s *store) lookAndSleep(ctx context.Context, conn *sql.Conn, rung func()) (rang bool, err error) {
	g, sight := s.glanced.Load(), &sqldb.Sight{}
	known := g != nil && len(g.Names) == 0 && 0 < len(g.Claims) && len(g.Claims) <= lookBatch
	look, args, each := &phrase{parts: []string{s.rests("SELECT 0")}}, []string(nil), func(*sql.Rows) error { return nil }
	if known {
		look, args, each = s.glances(g, sight)
	}
	ctx, cancel := context.WithCancel(ctx)
	rows, err := s.sleeps(ctx, conn, look, args)
	if err != nil {
		cancel()
		return false, err
	}
	defer rows.Close()
	defer cancel() // or Close would wait for the end of the sleep
	for rows.Next() {
		if err := each(rows); err != nil {
			return false, err
		}
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	s.bell.asleep(true)
	defer s.bell.asleep(false)
	if !known || !s.tell(g, sight) || s.glanced.Load() != g {
		rung()
	}
	if !rows.NextResultSet() {
		return false, errors.Join(rows.Err(), errShort)
	}
	for rows.Next() {
		if err := rows.Scan(&rang); err != nil {
			return false, err
		}
	}
	return rang, errors.Join(rows.Err(), rows.Close())
}

// sleeps sends a text that looks and sleeps.
func (s *store) sleeps(ctx context.Context, conn *sql.Conn, look *phrase, args []string) (*sql.Rows, error) {
	whole := look.name == "" || s.keepsNone.Load()
	rows, err := sent(s, conn, look, args, func(text string) (*sql.Rows, error) { return conn.QueryContext(ctx, text) })
	if number(err) == syntax && whole {
		s.apart.Store(true) // a setting has come to make a block no statement
	}
	return rows, err
}

// glances returns what asks for the claims of a glance, and what reads each row of the answer.
func (s *store) glances(g *sqldb.Glance, sight *sqldb.Sight) (look *phrase, args []string, each func(*sql.Rows) error) {
	sight.States = make([]sqldb.State, len(g.Claims))
	text, each := s.asks(sight, g.Claims, sight.States, asking{})
	if len(g.Claims) > 1 {
		return &phrase{parts: []string{s.rests(text)}}, nil, each
	}
	// As mostly while a lock goes from hand to hand.
	look = s.looks
	if s.apart.Load() {
		look = s.looksApart
	}
	return look, []string{keyOf(g.Claims[0].Name).String(), strconv.FormatInt(g.Claims[0].Ticket, 10)}, each
}

// tell tells the claims that hold, and reports whether all of them were there.
func (s *store) tell(g *sqldb.Glance, sight *sqldb.Sight) (all bool) {
	all = true
	var woken []driver.Entry
	for i, state := range sight.States {
		switch {
		case state.Ends <= sight.Now:
			all = false
		case state.Holds:
			woken = append(woken, driver.Entry{ID: g.Claims[i].ID, Ticket: g.Claims[i].Ticket})
		}
	}
	s.woke(woken...)
	return all
}
