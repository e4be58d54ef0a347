package postgres

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

// transactions returns the LockTx and LockSQLTx of a database.
func transactions(claims bool) func(testing.TB) *drivertest.Transactions {
	return func(t testing.TB) *drivertest.Transactions {
		in := schema()
		exec(t, connect(t, server), "CREATE SCHEMA "+in)
		pool, err := sql.Open("pgx", "postgres://postgres@"+server.Addr+"/postgres?search_path="+in)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		d := &drive.Database{
			DB: pool, Locks: LockSQLTx,
			Me:    "SELECT pg_backend_pid()",
			Waits: "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = %d",
			Kill:  "SELECT pg_terminate_backend(%d)",
		}
		d.Number(t)
		own := connect(t, server).Config().Copy()
		own.ConnConfig.RuntimeParams["search_path"] = in
		bare := connectTo(t, own)
		return &drivertest.Transactions{
			Levels: map[string]drivertest.Reads{
				"read committed":                drivertest.ReadsLatest,
				"read committed (database/sql)": drivertest.ReadsLatest,
				"repeatable read":               drivertest.ReadsRefused,
				"serializable":                  drivertest.ReadsRefused,
				"serializable (database/sql)":   drivertest.ReadsRefused,
			},
			Claims: claims,
			Stale:  errors.New("no lock is stale"),
			Begin: func(level string) (drivertest.Transaction, error) {
				switch level {
				case "read committed (database/sql)":
					return d.Begin(t, sql.LevelReadCommitted)
				case "serializable (database/sql)":
					return d.Begin(t, sql.LevelSerializable)
				}
				tx, err := bare.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
				if err != nil {
					return nil, err
				}
				return d.Transaction(t, pgxTx{tx})
			},
		}
	}
}

// A pgxTx locks by LockTx.
type pgxTx struct{ pgx.Tx }

func (x pgxTx) Lock(ctx context.Context, name string) error { return LockTx(ctx, x.Tx, name) }
func (x pgxTx) Rollback()                                   { _ = x.Tx.Rollback(context.Background()) }

func (x pgxTx) Ask(ctx context.Context, statement string, into *int64) error {
	return x.QueryRow(ctx, statement).Scan(into)
}

func (x pgxTx) Do(ctx context.Context, statement string) error {
	_, err := x.Exec(ctx, statement)
	return err
}
