package guardtest

import (
	"database/sql"
	"testing"

	"github.com/stilelock/stile/guard"
)

// Cost measures a transaction that writes one row: alone, and with the token raised or checked in it.
func Cost(b *testing.B, d *Database) {
	table, err := guard.NewTable(d.Dialect, "")
	if err != nil {
		b.Fatal(err)
	}
	if err := table.Create(b.Context(), d.DB); err != nil {
		b.Fatal(err)
	}
	column, err := guard.NewColumn(d.Dialect, "account", "id", "fence")
	if err != nil {
		b.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint)",
		"INSERT INTO account (id, balance) VALUES (1, 0)",
	} {
		if _, err := d.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	token := int64(0)
	for _, way := range []struct {
		name string
		ask  func(tx *sql.Tx) error
	}{
		{"bare", func(*sql.Tx) error { return nil }},
		{"table raise", func(tx *sql.Tx) error {
			token++
			return table.Raise(b.Context(), guard.SQL(tx), "account/1", token)
		}},
		{"table raise again", func(tx *sql.Tx) error { return table.Raise(b.Context(), guard.SQL(tx), "account/1", token) }},
		{"table check", func(tx *sql.Tx) error { return table.Check(b.Context(), guard.SQL(tx), "account/1", token) }},
		{"column raise", func(tx *sql.Tx) error { token++; return column.Raise(b.Context(), guard.SQL(tx), 1, token) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				tx, err := d.BeginTx(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := way.ask(tx); err != nil {
					b.Fatal(err)
				}
				if _, err := tx.ExecContext(b.Context(),
					"UPDATE account SET balance = balance + 1 WHERE id = 1"); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
