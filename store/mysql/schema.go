package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

//go:embed schema.sql
var schemaText string

// schemaVersion is the version of schema.sql. Any change of the tables makes another version.
const schemaVersion = 1

// DefaultPrefix begins the names of the tables.
const DefaultPrefix = "stile_"

// A place is the place of the tables in a database: the checked beginning of their names.
type place string

var goodPrefix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`) })

func newPlace(prefix string) (place, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if !goodPrefix().MatchString(prefix) {
		return "", driver.Refused(errors.New("the prefix must be up to 32 letters, digits and _, and begin with no digit"))
	}
	return place(prefix), nil
}

// fill puts the place into a text.
func (p place) fill(text string) string {
	version := strconv.Itoa(schemaVersion)
	return strings.NewReplacer("{prefix}", string(p), "{version}", version, "{clock}", clock).Replace(text)
}

// clock is the server's time in microseconds, whatever the time zone of the session. It is the time at which the statement
// began, before any wait for a row: leases may end a little early, never late.
const clock = "TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(6))"

// Schema returns the SQL that makes the tables of locks in the chosen database, for users who may not make their own; the
// package documentation has the rights that they need. An empty prefix means [DefaultPrefix]. The error says why a prefix
// cannot be used.
func Schema(prefix string) (string, error) {
	p, err := newPlace(prefix)
	if err != nil {
		return "", err
	}
	return p.fill(schemaText + identityText), nil
}

// statements returns the statements of a text, without comments.
func statements(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		lines = append(lines, line)
	}
	var all []string
	for part := range strings.SplitSeq(strings.Join(lines, "\n"), ";") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// prepare makes the tables unless they exist. Many processes may do so at once.
func (s *store) prepare(ctx context.Context) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	exists, err := s.check(ctx, conn)
	if err != nil || exists {
		return err
	}
	return s.create(ctx, conn)
}

// check reads the tables' columns and reports whether the tables exist. The error says which column is wrong.
func (s *store) check(ctx context.Context, conn *sql.Conn) (exists bool, err error) {
	var version sql.NullInt64
	err = conn.QueryRowContext(ctx, s.place.fill("SELECT MAX(`version`) FROM `{prefix}meta`")).Scan(&version)
	switch {
	case number(err) == noSuchTable:
		return false, nil
	case number(err) == noSuchColumn:
		return false, fmt.Errorf("%w: table %smeta", driver.ErrForeign, s.place)
	case err != nil:
		return false, s.definite(ctx, err)
	case version.Valid && version.Int64 > schemaVersion:
		return false, driver.Refused(fmt.Errorf("the tables %s* were made by a newer stile: "+
			"their version is %d, this one knows %d", s.place, version.Int64, schemaVersion))
	case version.Valid && version.Int64 < schemaVersion:
		return false, driver.Refused(fmt.Errorf("the tables %s* were made by an older stile: "+
			"their version is %d, this one needs %d", s.place, version.Int64, schemaVersion))
	}
	rows, err := conn.QueryContext(ctx, "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ("+
		strings.Join([]string{s.table("name"), s.table("claim"), s.table("tx"), s.table("meta")}, ", ")+")")
	if err != nil {
		return false, s.definite(ctx, err)
	}
	defer rows.Close()
	found := 0
	for rows.Next() {
		var name, engine string
		if err := rows.Scan(&name, &engine); err != nil {
			return false, s.definite(ctx, err)
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return false, driver.Refused(fmt.Errorf("table %s is kept by %s, and locks need InnoDB", name, engine))
		}
		found++
	}
	return version.Valid && found == len(tables), s.definite(ctx, rows.Err())
}

var tables = []string{"name", "claim", "tx", "meta"}

func (s *store) table(name string) string { return quote([]byte(string(s.place) + name)) }

// createWithin bounds the wait for another process that makes the tables.
const createWithin = 10 * time.Second

// create makes the tables. If another process makes them at the same time, create waits for it.
func (s *store) create(ctx context.Context, conn *sql.Conn) error {
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return s.definite(ctx, err)
	}
	if !database.Valid {
		return driver.Refused(errors.New("no database is chosen: the address must name one, mysql://host/database"))
	}
	sum := sha256.Sum256([]byte(database.String + "\x00" + string(s.place)))
	name := "'stile " + hex.EncodeToString(sum[:16]) + "'"
	var got sql.NullInt64
	lock := fmt.Sprintf("SELECT GET_LOCK(%s, %d)", name, int(createWithin/time.Second))
	if err := conn.QueryRowContext(ctx, lock).Scan(&got); err != nil {
		return s.definite(ctx, err)
	}
	if got.Int64 != 1 {
		err := fmt.Errorf("another process has been making the tables for %v", createWithin)
		return driver.Refused(driver.Unreachable(err))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+name+")"); err != nil {
			drop(conn)
		}
	}()
	exists, err := s.check(ctx, conn)
	if err != nil || exists {
		return err
	}
	return s.write(ctx, conn)
}

// write makes the tables. Only one process does so at a time.
func (s *store) write(ctx context.Context, conn *sql.Conn) error {
	if err := s.mayBegin(ctx, conn); err != nil {
		return err
	}
	for _, text := range statements(s.place.fill(schemaText)) {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			if n := number(err); n == tableDenied || n == databaseDenied || n == accessDenied {
				return driver.Refused(fmt.Errorf("the user may not make the tables of locks: "+
					"have their owner run what \"stile migrate --print\" prints (%w)", s.cause(err)))
			}
			return s.definite(ctx, err)
		}
	}
	if exists, err := s.check(ctx, conn); err != nil || !exists {
		return errors.Join(err, driver.Refused(errEmptied))
	}
	return nil
}

// mayBegin returns an error if the version of the schema is missing although there are claims or names: then somebody has
// emptied the table, which also had the highest ticket of the deleted names.
func (s *store) mayBegin(ctx context.Context, conn *sql.Conn) error {
	var used bool
	q := s.place.fill("SELECT EXISTS (SELECT 1 FROM `{prefix}name`) OR EXISTS (SELECT 1 FROM `{prefix}claim`)")
	err := conn.QueryRowContext(ctx, q).Scan(&used)
	switch {
	case number(err) == noSuchTable:
		return nil
	case err != nil:
		return s.definite(ctx, err)
	case used:
		return driver.Refused(fmt.Errorf("%w: %smeta", errEmptied, s.place))
	}
	return nil
}
