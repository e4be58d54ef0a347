package postgres

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A client sends an Enter before it listens, and another after. The first arrives after the second, and the client is still
// notified that its claim holds.
func TestLateEnterLeavesBreakWatch(t *testing.T) {
	t.Parallel()
	url := "postgres://postgres@" + server.Addr + "/postgres"
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	h := &heldBack{sent: make(chan struct{}), goes: make(chan struct{})}
	config.ConnConfig.Tracer = h
	s := schema()
	d, err := New(timely(t), connectTo(t, config), &Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	other := open(t, url+"?schema="+s)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, other, a)
	late := *b
	arrived := make(chan error, 1)
	h.statement.Store(&d.statements.enter)
	go func() {
		_, err := d.Enter(timely(t), &late)
		arrived <- err
	}()
	<-h.sent
	enter(t, d, b)
	listens(t, d, b)
	close(h.goes)
	if err := <-arrived; err != nil {
		t.Fatalf("the late enter: %v", err)
	}
	leave(t, other, a)
	await(t, d, b)
}

// heldBack is a tracer that holds back the next statement with a given text until goes is closed.
type heldBack struct {
	statement  atomic.Pointer[string]
	sent, goes chan struct{}
}

func (h *heldBack) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if next := h.statement.Load(); next != nil && data.SQL == *next && h.statement.CompareAndSwap(next, nil) {
		close(h.sent)
		<-h.goes
	}
	return ctx
}

func (h *heldBack) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
