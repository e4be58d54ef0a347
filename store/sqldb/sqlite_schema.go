package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

//go:embed sqlite.sql
var sqliteText string

// schemaVersion is the version of the tables in sqlite.sql.
const schemaVersion = 2

// statements returns the statements of a text by name, for tables with this prefix.
func statements(text, prefix string) map[string]string {
	_, text, _ = strings.Cut(text, "-- name: ")
	all := map[string]string{}
	for part := range strings.SplitSeq(text, "-- name: ") {
		name, statement, _ := strings.Cut(part, "\n")
		all[name] = strings.TrimSpace(strings.ReplaceAll(statement, "{prefix}", prefix))
	}
	return all
}

// prepare makes the tables if they are missing. Several processes may do so at once.
func (d *lite) prepare(ctx context.Context) error {
	s := d.write
	if err := d.take(ctx, s); err != nil {
		return err
	}
	defer s.give()
	err := d.reads(ctx, s)
	if d.options.Opened != nil && (err == nil || d.astray(s, err)) {
		if wrong := d.options.Opened(ctx); wrong != nil {
			return wrong
		}
	}
	if err != nil {
		return err
	}
	if err := d.patiently(ctx, s.begin); err != nil {
		return err
	}
	m, err := d.create(s)
	if err == nil {
		err = d.check(s)
	}
	if err == nil {
		err = s.exec("commit")
	}
	if err != nil {
		s.undo()
		return driver.Refused(explain(d.options.Label, err))
	}
	d.incarnation = m.incarnation
	return nil
}

// reads makes SQLite open its log, by a read.
func (d *lite) reads(ctx context.Context, s *session) error {
	if d.options.Existing {
		if err := d.patiently(ctx, func() error { return d.exists(s) }); err != nil {
			return err
		}
	}
	if err := d.patiently(ctx, func() error { return useWAL(s) }); err != nil {
		return err
	}
	return d.patiently(ctx, func() error { _, err := d.known(s, "meta"); return err })
}

// astray reports whether an error may come from using another log than the other processes: such a log does not fit their
// index, and writes seem to be missing from it.
func (d *lite) astray(s *session, err error) bool {
	if !errors.Is(err, ErrMissing) {
		return code(err) == codeIO
	}
	mode, err := journal(s, "PRAGMA journal_mode")
	return err == nil && mode == "wal"
}

// useWAL lets readers and the writer work at the same time, and makes a commit one write to one file.
func useWAL(s *session) error {
	mode, err := journal(s, "PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the database cannot use a write-ahead log: it must be a file on a local disk (its journal mode is %s)", mode)
	}
	return nil
}

// journal returns the journal mode that a pragma returns.
func journal(s *session, pragma string) (mode string, err error) {
	err = s.conn.Query(pragma, nil, func(scan func(...any) error) (bool, error) { return true, scan(&mode) })
	return mode, err
}

// known reports whether the schema has a table or an index with this name after the prefix.
func (d *lite) known(s *session, name string) (bool, error) {
	var n int
	err := s.row("known", []any{d.options.Prefix + name}, &n)
	return n > 0, err
}

func (d *lite) exists(s *session) error {
	known, err := d.known(s, "meta")
	if err == nil && !known {
		err = fmt.Errorf("%s has no table %smeta: %w", d.options.Label, d.options.Prefix, ErrMissing)
	}
	return err
}

// create makes the tables, or migrates tables of an earlier version. A transaction must be open.
func (d *lite) create(s *session) (meta, error) {
	known, err := d.known(s, "meta")
	if err != nil {
		return meta{}, err
	}
	if known {
		if err := d.migrate(s); err != nil {
			return meta{}, err
		}
		return d.readMeta(s)
	}
	m := meta{version: schemaVersion, incarnation: rand.Text(), boot: d.boot}
	for _, name := range []string{"create meta", "create claim", "create index"} {
		if err := s.exec(name); err != nil {
			return meta{}, err
		}
	}
	return m, s.exec("create row", m.version, m.incarnation, m.boot, d.now())
}

// migrate upgrades tables of version 1, which lack the column seen, to version 2. No claim was renewed later than seen says,
// since a lease has a longest length.
//
// A stile that knows only version 1 refuses tables of version 2, and could not renew its claims there. So the tables stay
// unchanged until those claims are gone.
func (d *lite) migrate(s *session) error {
	var version, claims int
	if err := s.row("schema", nil, &version); err != nil || version != 1 {
		return nil //nolint:nilerr // readMeta explains tables that are not stile's
	}
	if err := d.tables(s); err != nil {
		return err
	}
	var m meta
	now := d.now()
	if err := s.row("from 1: state", []any{driver.MaxTTL.Microseconds(), now}, &m.boot, &m.seen, &claims); err != nil {
		return err
	}
	if claims > 0 && !d.rebooted(m, now) {
		return fmt.Errorf("%s is in use by an older stile, whose locks and waiters (%d) this one would end: open it when they are gone",
			d.options.Label, claims)
	}
	if err := s.exec("from 1: add"); err != nil {
		return err
	}
	return s.exec("from 1: fill", m.seen)
}

// check returns an error for unusable tables, so that it is reported before the first lock.
func (d *lite) check(s *session) error {
	if err := d.tables(s); err != nil {
		return err
	}
	for _, name := range []string{"check meta", "check claim"} {
		var found string
		if err := s.row(name, nil, &found); err != nil {
			return err
		}
		if found != "ok" {
			return d.damaged(found)
		}
	}
	for _, name := range []string{"queues", "insert", "update"} { // they name all columns
		if err := s.prepare(name); code(err) == codeError {
			return d.damaged(err.Error())
		} else if err != nil {
			return err
		}
	}
	return nil
}

// tables returns an error unless all tables and indexes exist.
func (d *lite) tables(s *session) error {
	for _, name := range []string{"meta", "claim", "claim_name"} {
		known, err := d.known(s, name)
		if err != nil {
			return err
		}
		if !known {
			return d.damaged(fmt.Sprintf("%s%s is missing", d.options.Prefix, name))
		}
	}
	return nil
}

func (d *lite) damaged(how string) error {
	how = strings.Join(strings.Fields(how), " ")
	return fmt.Errorf("%s is damaged: %s; stop what uses it and delete it, or its tables %[3]smeta and %[3]sclaim: its locks are free then",
		d.options.Label, how, d.options.Prefix)
}

// A meta is the one row of the meta table.
type meta struct {
	version           int
	incarnation, boot string
	last, seen        int64
}

func (d *lite) readMeta(s *session) (meta, error) {
	var m meta
	err := s.row("meta", nil, &m.version, &m.incarnation, &m.boot, &m.last, &m.seen)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err != nil && code(err) == codeError:
		return m, fmt.Errorf("%s has a table %smeta that stile did not make: %w", d.options.Label, d.options.Prefix, driver.ErrForeign)
	case err != nil:
		return m, err
	}
	return m, d.checkMeta(m)
}

// checkMeta returns an error for a store that this process cannot use, or can no longer use.
func (d *lite) checkMeta(m meta) error {
	switch {
	case m.version > schemaVersion:
		return fmt.Errorf("%s was written by a newer stile: its schema is %d, this one knows %d", d.options.Label, m.version, schemaVersion)
	case d.incarnation != "" && m.incarnation != d.incarnation:
		return &LostError{fmt.Errorf("the tables of %s were made anew while they were open", d.options.Label)}
	case (m.boot == "") != (d.boot == ""):
		return fmt.Errorf("%s is in use by processes that time leases by another clock (one side cannot read the host's clock: mount /proc there)", d.options.Label)
	}
	return nil
}
