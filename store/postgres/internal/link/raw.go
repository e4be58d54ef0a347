package link

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Values are the arguments of a statement in the binary format.
type Values struct {
	list [][]byte
	text []byte // the text of the numbers
}

// NewValues returns values with room for n.
func NewValues(n int) *Values { return &Values{list: make([][]byte, 0, n), text: make([]byte, 0, 8*n)} }

// Text adds a text, or bytes.
func (v *Values) Text(s string) *Values {
	v.list = append(v.list, []byte(s))
	return v
}

// Numbers adds numbers of type bigint.
func (v *Values) Numbers(ns ...int64) *Values {
	for _, n := range ns {
		v.text = binary.BigEndian.AppendUint64(v.text, uint64(n))
		v.list = append(v.list, v.text[len(v.text)-8:])
	}
	return v
}

var truth = map[bool][]byte{false: {0}, true: {1}}

// Truths adds values of type boolean.
func (v *Values) Truths(bs ...bool) *Values {
	for _, b := range bs {
		v.list = append(v.list, truth[b])
	}
	return v
}

// A Row is a row of an answer. It is valid until the next row is read.
type Row struct {
	values [][]byte
	fields []pgconn.FieldDescription
	types  *pgtype.Map
}

// Number returns a column of type bigint. It returns false if the column is of another type or NULL.
func (r *Row) Number(i int) (n int64, ok bool) {
	if len(r.values[i]) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(r.values[i])), true
}

// Scan reads a column of any type.
func (r *Row) Scan(i int, into any) error {
	return r.types.Scan(r.fields[i].DataTypeOID, pgtype.BinaryFormatCode, r.values[i], into)
}

var inBinary = []int16{pgtype.BinaryFormatCode}

// QueryRaw is Query for prepared statements, without the client library's translation of values.
//
// A lock and unlock by one goroutine makes 68 allocations in place of 110. It takes 0.85 of the time with client and server
// on one core (0.81 to 0.88), and 0.96 with a core for each (0.94 to 1.02):
//
//	go run ./proof/benchbefore -stores postgres -only '^alone$' -rounds 41 -seconds 0.2 466ca16
func (l *Link) QueryRaw(caller context.Context, sql string, v *Values, each func(r *Row) error) error {
	return l.on(caller, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if t := l.config.Tracer; t != nil {
			ctx = t.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: sql})
			defer func() { t.TraceQueryEnd(ctx, conn, pgx.TraceQueryEndData{Err: err}) }()
		}
		// It is prepared once: the connection remembers it by its text.
		sd, err := conn.Prepare(ctx, sql, sql)
		if err != nil {
			return err
		}
		rows := conn.PgConn().ExecStatement(ctx, sd, v.list, inBinary, inBinary)
		row := Row{fields: sd.Fields, types: conn.TypeMap()}
		for err == nil && rows.NextRow() {
			if row.values = rows.Values(); len(row.values) != len(row.fields) {
				err = errMixedUp
			} else {
				err = each(&row)
			}
		}
		tag, closed := rows.Close()
		if closed != nil {
			forget(ctx, conn, sql)
			return closed
		}
		if err == nil {
			err = answers(tag, sql)
		}
		return err
	})
}

// forget drops a failed statement's preparation, which may be the reason.
func forget(ctx context.Context, conn *pgx.Conn, sql string) {
	if !conn.IsClosed() && conn.Deallocate(ctx, sql) != nil {
		HangUp(conn)
	}
}
