package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// identityText makes the table of the id, and its last statement draws an id unless there is one.
//
//go:embed identity.sql
var identityText string

// readIdentity reads the id from any table in this place.
const readIdentity = "SELECT LEFT(`id`, 256) FROM `{prefix}id` WHERE `one` = 1"

// An idState is a client's knowledge of the store's id.
type idState int

const (
	idKept    idState = iota
	idUndrawn         // there is a table without a row
	idMissing         // there is no table
)

// Identity is [driver.Identifier.Identity]. The id is in a table of its own, which the first call makes. Each call reads it
// again: a replica that was behind when it took over may have another id.
func (s *store) Identity(ctx context.Context) (string, error) {
	var failed error
	for range attempts {
		id, state, err := s.readIdentity(ctx)
		switch {
		case err != nil || state == idKept:
			return id, err
		case state == idMissing && errors.Is(failed, driver.ErrUnsupported):
			return "", failed // and no other client has made the table meanwhile
		}
		var settled bool
		if settled, failed = s.draw(ctx, state); settled {
			return "", failed
		}
	}
	if failed == nil {
		failed = fmt.Errorf("%w: table %sid does not keep what is inserted", driver.ErrForeign, s.place)
	}
	return "", failed
}

// readIdentity returns the id if the table has one.
func (s *store) readIdentity(ctx context.Context) (id string, state idState, err error) {
	var (
		value  []byte
		denied bool
	)
	err = s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
		err := conn.QueryRowContext(ctx, s.place.fill(readIdentity)).Scan(&value)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			state = idUndrawn
			return nil
		case number(err) == noSuchTable:
			state = idMissing
			return nil
		case number(err) == noSuchColumn:
			return fmt.Errorf("%w: table %sid", driver.ErrForeign, s.place)
		}
		state, denied = idKept, number(err) == tableDenied
		return err
	})
	switch {
	case denied: // the server does not say whether there is a table: other clients may use an id
		return "", state, fmt.Errorf("%w: have the owner of the tables run what \"stile migrate --print\" prints, and GRANT SELECT on %sid", err, s.place)
	case err == nil && state == idKept && driver.CheckName(string(value)) != nil:
		err = fmt.Errorf("%w: table %sid has the value %.20q, which stile did not set", driver.ErrForeign, s.place, value)
	}
	return string(value), state, err
}

// draw draws an id unless there is one, and first makes the table if it is missing. It reports whether its error proves that
// there is no id; if not, the next read decides.
func (s *store) draw(ctx context.Context, state idState) (settled bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return true, err
	}
	defer conn.Close()
	all := statements(s.place.fill(identityText))
	if state != idMissing { // CREATE TABLE needs the right to create even if the table exists
		all = all[len(all)-1:]
	}
	for i, text := range all {
		_, err := conn.ExecContext(ctx, text)
		n := number(err)
		switch {
		case err == nil:
			continue
		case n == noSuchTable: // somebody has dropped it
			return false, nil
		case i < len(all)-1 && (n == tableDenied || n == databaseDenied):
			return false, fmt.Errorf("%w: the table %sid of the store's id is missing, and the user may not make it, for want of the right CREATE: "+
				"have the owner of the tables run what \"stile migrate --print\" prints, and GRANT SELECT on the table (%w)",
				driver.ErrUnsupported, s.place, s.cause(err))
		}
		judged := s.judged(ctx, conn, err)
		return driver.NotApplied(judged) && !again(err), judged
	}
	return false, nil
}
