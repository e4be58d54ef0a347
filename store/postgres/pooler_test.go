package postgres

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// Through a pooler that shares connections between transactions everything works except notifications: waiters poll, and the
// traits say so.
func TestContractThroughPooler(t *testing.T) {
	t.Parallel()
	pooler := servertest.PgBouncer(t, server, "transaction")
	url := fresh(pooler)
	traits := open(t, url).Traits()
	if traits.Wake != "poll" || !strings.Contains(strings.Join(traits.Remarks(), "\n"), "pooler") {
		t.Errorf("wake is %q, with notes %q; want polling, and why", traits.Wake, traits.Remarks())
	}
	drivertest.Run(t, drivertest.Store{Open: opener(url), Fresh: fresher(pooler), Lease: time.Second})
}

// A pooler's shared connection goes on listening after the test of notifications, but to no channel to which other clients
// send.
func TestPoolerIsToldNothing(t *testing.T) {
	t.Parallel()
	pooler := servertest.PgBouncer(t, server, "transaction\ndefault_pool_size = 1")
	d := open(t, fresh(pooler))
	var channels []string
	scan(t, connect(t, pooler), &channels, "SELECT array_agg(c) FROM pg_listening_channels() c", asText)
	if !slices.Contains(channels, d.channel) {
		t.Fatalf("the connection listens to %v; want the driver's own %s, or the test proves nothing", channels, d.channel)
	}
	if slices.Contains(channels, d.tables.channel()) {
		t.Errorf("the connection listens to %v; want that nobody is told there of breaks and watches", channels)
	}
}

// A client that certainly shares its connections learns this without a notification.
func TestPoolerIsNotNotified(t *testing.T) {
	t.Parallel()
	for mode, wake := range map[string]string{"transaction": "poll", "transaction\nserver_round_robin = 1": "poll", "session": "push"} {
		config, err := pgxpool.ParseConfig("postgres://postgres@" + servertest.PgBouncer(t, server, mode).Addr + "/postgres")
		if err != nil {
			t.Fatal(err)
		}
		heard := &overheard{}
		config.ConnConfig.Tracer = heard
		d, err := New(timely(t), connectTo(t, config), &Options{Schema: schema()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		if notified := heard.notified.Load(); notified != (wake == "push") || d.Traits().Wake != wake {
			t.Errorf("mode %q: wake is %q, and a notification was sent: %v; want %q, sent only if it is push",
				mode, d.Traits().Wake, notified, wake)
		}
	}
}

// overheard is a tracer that notes whether a notification was sent.
type overheard struct{ notified atomic.Bool }

func (o *overheard) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "SELECT pg_notify") {
		o.notified.Store(true)
	}
	return ctx
}

func (o *overheard) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A process that stands still while it waits for a notification finds it afterwards.
func TestNotificationIsFoundLate(t *testing.T) {
	t.Parallel()
	pool := connect(t, server)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	channel, former := schema(), schema()
	listen := "LISTEN " + channel + "; LISTEN " + former
	if _, err := conn.Exec(t.Context(), listen, asText); err != nil {
		t.Fatal(err)
	}
	if comes(t.Context(), conn.Conn(), channel, time.Millisecond, time.Millisecond) {
		t.Error("a notification has come that nobody has sent")
	}
	// Through a pooler this is a notification for the connection's former client.
	exec(t, pool, "SELECT pg_notify($1, 'echo')", former)
	const lasts = 200 * time.Millisecond
	if comes(t.Context(), conn.Conn(), channel, lasts, lasts) {
		t.Error("a notification on another channel counts")
	}
	exec(t, pool, "SELECT pg_notify($1, 'echo')", former)
	exec(t, pool, "SELECT pg_notify($1, 'echo')", channel)
	const over = -time.Second
	if !comes(t.Context(), conn.Conn(), channel, over, time.Minute) {
		t.Error("a notification is lost that came while the first look lasted")
	}
}

// The error names a pooler without a second connection for a client, or without transactions, and the setting that helps.
func TestPoolerInTheWay(t *testing.T) {
	t.Parallel()
	for mode, says := range map[string][]string{
		"session\ndefault_pool_size = 1": {"from the pooler", "default_pool_size"},
		"statement":                      {"the pooler", "takes no transactions", "pool_mode"},
	} {
		pooler := servertest.PgBouncer(t, server, mode)
		for _, url := range []string{fresh(pooler), "postgres://postgres@" + pooler.Addr + "/postgres?mode=session"} {
			err := refuses(t, url, says...)
			marks(t, err, true, mode != "statement")
		}
	}
	few := open(t, fresh(servertest.PgBouncer(t, server, "session\ndefault_pool_size = 1"), "pool_max_conns=1"))
	enter(t, few, claim("name", "polls"))
}

// A pooler that gives each client its own connection works.
func TestSessionPooler(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(servertest.PgBouncer(t, server, "session")))
	if wake := d.Traits().Wake; wake != "push" {
		t.Errorf("wake is %q; want push", wake)
	}
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)
}
