package link

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/internal/drive"
)

// If a statement's columns change, it fails once, and is then prepared again.
func TestRawIsPreparedAnew(t *testing.T) {
	t.Parallel()
	l := open(t, "postgres://postgres@"+server.Addr+"/postgres?pool_max_conns=1")
	l.Prepare()
	if err := ask(t, l, "SELECT 7::bigint AS n, 'x'::text AS other INTO changes"); err != nil {
		t.Fatal(err)
	}
	read := func() (n int64, other string, err error) {
		err = l.QueryRaw(drive.Timely(t), "SELECT * FROM changes WHERE n = $1::bigint", NewValues(1).Numbers(7), func(r *Row) error {
			n, _ = r.Number(0)
			return r.Scan(1, &other)
		})
		return n, other, err
	}
	if n, other, err := read(); err != nil || n != 7 || other != "x" {
		t.Fatalf("read = %d, %q, %v; want 7 and x", n, other, err)
	}
	if err := ask(t, l, "ALTER TABLE changes ADD COLUMN more boolean"); err != nil {
		t.Fatal(err)
	}
	_, _, err := read()
	drive.Says(t, err, "cached plan must not change result type")
	if n, other, err := read(); err != nil || n != 7 || other != "x" {
		t.Errorf("read = %d, %q, %v; want 7 and x", n, other, err)
	}
}

// Values arrive unchanged, NULL differs from an empty text, and a column of another type is not taken for a number.
func TestRawValues(t *testing.T) {
	t.Parallel()
	l := open(t, "postgres://postgres@"+server.Addr+"/postgres")
	l.Prepare()
	v := NewValues(5).Text("é\x00").Text("").Numbers(-1, 1<<62).Truths(true)
	rows := 0
	err := l.QueryRaw(drive.Timely(t), `SELECT $3::bigint, $4::bigint, $1::bytea, $2::text, $5::boolean, NULL::bigint`, v, func(r *Row) error {
		rows++
		var (
			text  []byte
			empty string
			yes   bool
		)
		a, _ := r.Number(0)
		b, _ := r.Number(1)
		_, some := r.Number(5)
		for i, into := range []any{&text, &empty, &yes} {
			if err := r.Scan(i+2, into); err != nil {
				return err
			}
		}
		if a != -1 || b != 1<<62 || string(text) != "é\x00" || empty != "" || !yes || some {
			t.Errorf("the answer is %d, %d, %q, %q, %v, and a number %v", a, b, text, empty, yes, some)
		}
		return nil
	})
	if err != nil || rows != 1 {
		t.Errorf("%d rows, %v; want one", rows, err)
	}
}

type tracer struct{ began, ended []string }

func (tr *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	tr.began = append(tr.began, d.SQL)
	return ctx
}

func (tr *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	tr.ended = append(tr.ended, "")
}

// The tracer of a user's pool sees these statements.
func TestRawIsTraced(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://postgres@" + server.Addr + "/postgres")
	if err != nil {
		t.Fatal(err)
	}
	tr := &tracer{}
	config.ConnConfig.Tracer = tr
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l := New(pool)
	defer l.Close()
	const statement = "SELECT 1::bigint"
	if err := l.QueryRaw(drive.Timely(t), statement, NewValues(0), func(*Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(tr.began) != 1 || tr.began[0] != statement || len(tr.ended) != 1 {
		t.Errorf("the tracer was told of %q, and of the end %d times; want %q, once", tr.began, len(tr.ended), statement)
	}
}
