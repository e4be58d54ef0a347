package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

const (
	listenWithin = 5 * time.Second // how long the server may take to listen
	tryEvery     = 5 * time.Second // how often an idle connection is tested
	echoes       = time.Second     // bounds the return of a notification
)

// A listener is the source of messages for a driver's inboxes: one connection that listens to the driver's own channel, for
// claims' turns, and to the channel for watches and breaks.
type listener struct{ d *Driver }

// Context is [inbox.Source].
func (l *listener) Context() context.Context { return l.d.link.Context() }

// Go is [inbox.Source].
func (l *listener) Go(f func()) bool { return l.d.link.Go(f) }

// Doubt is [inbox.Source]: a watched queue may have changed while nobody listened.
func (l *listener) Doubt() {
	l.d.link.Lost()
	l.d.watch.all()
}

// Await waits for the server's message. The first time, and after the connection was lost, it returns early when the driver
// listens, so that the claim enters again and sees earlier changes. If notifications do not arrive, it polls, with one
// statement for all claims of the driver.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.pollReason != "" {
		return d.poller.wait(ctx, c)
	}
	p, err := d.inboxes.Await(ctx, d.channel, c.ID, c.Ticket)
	if err == nil && p.Holds {
		d.breaks.stands(c, p.Ticket, true)
	}
	return p, err
}

// Subscribe is [inbox.Source]. It listens on one connection until it is lost or ctx ends.
func (l *listener) Subscribe(ctx context.Context, channel string, stands func(bool), told func(text string)) error {
	conn, err := l.connect(ctx, l.d.channel, l.d.tables.channel())
	if err != nil {
		if ctx.Err() == nil && !link.Crowded(err) {
			l.d.link.Lost()
		}
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(bye)
	}()
	if id, err := l.d.serverID(ctx, conn); err == nil {
		l.d.failover.heard(id)
	}
	stands(true)
	l.d.watch.all()
	for {
		quiet, cancel := context.WithTimeout(ctx, tryEvery)
		n, err := conn.WaitForNotification(quiet)
		over := quiet.Err() != nil
		cancel()
		switch {
		case err == nil && n.Channel == channel:
			told(n.Payload)
			continue
		case err == nil:
			if id, broken := l.d.breaks.told(n.Payload); broken { // if it waits, it enters again and learns that it is gone
				told("0 " + hex.EncodeToString([]byte(id)))
			} else {
				l.d.watch.told(n.Payload)
			}
			continue
		case ctx.Err() != nil || !over || conn.IsClosed():
			return err
		}
		// Nothing came for a while: test the connection.
		ask, cancel := context.WithTimeout(ctx, tryEvery)
		_, err = conn.Exec(ask, "SELECT 1", link.Plain)
		cancel()
		if err != nil {
			return err
		}
	}
}

// connect makes a connection that listens to channels.
func (l *listener) connect(ctx context.Context, channels ...string) (*pgx.Conn, error) {
	conn, err := l.d.link.Dial(ctx)
	if err != nil {
		return nil, err
	}
	listen := `LISTEN "` + strings.Join(channels, `"; LISTEN "`) + `"`
	within, cancel := context.WithTimeout(ctx, listenWithin)
	defer cancel()
	if _, err := conn.Exec(within, listen, pgx.QueryExecModeSimpleProtocol); err != nil {
		link.HangUp(conn)
		return nil, err
	}
	return conn, nil
}

var errNoNotify = errors.New("notifications do not come through: " +
	"a pooler that shares connections between transactions is in between")

// try tests whether a notification from one connection reaches another that listens. A pooler's shared connection goes on
// listening when this client has gone, so try uses a channel to which nobody else sends. Otherwise each notification would
// reach the connection's next client, and PgBouncer 1.18 to 1.20 ends if one comes while a query on it is being cancelled.
// Through a pooler that certainly shares connections, nothing is sent.
func (l *listener) try(ctx context.Context, pooled bool) error {
	conn, err := l.connect(ctx, l.d.channel)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if pooled {
		if shared, err := l.shared(ctx, conn); err != nil || shared {
			return cmp.Or(err, errNoNotify)
		}
	}
	const echo = "SELECT pg_notify($1::text, 'echo')"
	if _, err := l.d.link.Pool().Exec(ctx, echo, link.Plain, l.d.channel); err != nil {
		return err
	}
	if !comes(ctx, conn, l.d.channel, echoes, echoes/10) {
		return errNoNotify
	}
	return nil
}

// shared reports whether a pooler certainly shares connections: this one and one of the pool are at the same process of the
// server, or one of them is at two. It asks each twice in a row, so a pooler that gives out its connections round and round
// shows itself too.
func (l *listener) shared(ctx context.Context, conn *pgx.Conn) (bool, error) {
	other, err := l.d.link.Pool().Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer other.Release()
	var at [2]uint32
	for i := range 8 {
		which := (i + 1) / 2 % 2
		var process uint32
		err := [2]querier{conn, other}[which].QueryRow(ctx, "SELECT pg_backend_pid()", link.Plain).Scan(&process)
		if err != nil {
			return false, err
		}
		if at[which] == 0 {
			at[which] = process
		}
		if process != at[which] || at[0] == at[1] {
			return true, nil
		}
	}
	return false, nil
}

// comes waits twice for the given time, and reports whether a notification arrives on a channel. If a process stood still
// during the first wait, the notification arrives in the second. A notification on another channel proves nothing: a
// pooler's connection still listens for its former client.
func comes(ctx context.Context, conn *pgx.Conn, channel string, looks ...time.Duration) bool {
	for _, lasts := range looks {
		within, cancel := context.WithTimeout(ctx, lasts)
		n, err := conn.WaitForNotification(within)
		for err == nil && n.Channel != channel {
			n, err = conn.WaitForNotification(within)
		}
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

// parseTold parses a message, "ticket id". Ticket 0 makes the claim enter again.
func parseTold(text string) (claim string, ticket int64, ok bool) {
	first, rest, _ := strings.Cut(text, " ")
	ticket, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return "", 0, false
	}
	id, err := hex.DecodeString(rest)
	return string(id), ticket, err == nil
}
