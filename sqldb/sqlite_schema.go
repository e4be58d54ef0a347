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

// schemaVersion is that of the tables in sqlite.sql.
const schemaVersion = 1

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
	if err := d.patiently(ctx, func() error { return useWAL(s) }); err != nil {
		return err
	}
	if err := d.patiently(ctx, s.begin); err != nil {
		return err
	}
	m, err := d.create(s)
	if err == nil {
		err = s.exec("commit")
	}
	if err != nil {
		s.undo()
		return driver.Rejected(explain(d.options.Label, err))
	}
	d.incarnation = m.incarnation
	return nil
}

// useWAL lets readers and the writer leave each other alone, and makes a commit one write to one file.
func useWAL(s *session) error {
	var mode string
	if err := s.conn.QueryRowContext(context.Background(), "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the database cannot use a write-ahead log: it must be a file on a local disk (its journal mode is %s)", mode)
	}
	return nil
}

func (d *lite) create(s *session) (meta, error) {
	prefix := d.options.Prefix
	var known int
	if err := s.row("known", []any{prefix + "meta"}, &known); err != nil {
		return meta{}, err
	}
	if known > 0 {
		return d.readMeta(s)
	}
	m := meta{version: schemaVersion, incarnation: rand.Text(), boot: d.boot}
	for _, name := range []string{"create meta", "create claim", "create index"} {
		if err := s.exec(name); err != nil {
			return meta{}, err
		}
	}
	return m, s.exec("create row", m.version, m.incarnation, m.boot)
}

// A meta is the one row of the meta table.
type meta struct {
	version           int
	incarnation, boot string
	last              int64
}

func (d *lite) readMeta(s *session) (meta, error) {
	var m meta
	err := s.row("meta", nil, &m.version, &m.incarnation, &m.boot, &m.last)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err != nil && code(err) == codeError:
		return m, fmt.Errorf("%s has a table %smeta that stile did not make: %w", d.options.Label, d.options.Prefix, driver.ErrForeign)
	case err != nil:
		return m, err
	case m.version > schemaVersion:
		return m, fmt.Errorf("%s was written by a newer stile: its schema is %d, this one knows %d", d.options.Label, m.version, schemaVersion)
	case d.incarnation != "" && m.incarnation != d.incarnation:
		return m, &LostError{fmt.Errorf("the tables of %s were made anew while they were open", d.options.Label)}
	case (m.boot == "") != (d.boot == ""):
		return m, fmt.Errorf("%s is in use by processes that time leases by another clock (the wall clock, where the boot's id cannot be read)", d.options.Label)
	}
	return m, nil
}
