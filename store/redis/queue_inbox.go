package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/inbox"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// Await waits for the server's message. The first time, and after the connection was lost, it returns early when the server
// listens for this client, so that the claim enters again and sees earlier changes.
//
// One subscription serves all claims of a client; in a cluster with sharded channels, all its claims on a name.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	key := d.key(c.Name)
	p, err := d.inboxes.Await(ctx, d.channel(key, c), label(c.ID, key), c.Ticket)
	if err == nil && p.Holds {
		d.breaks.holds(d.clientChannel(c.Client), c.ID, key, c.TTL)
	}
	return p, err
}

// An inboxEntry is a claim's entry in an inbox.
type inboxEntry struct {
	d       *Driver
	key, id string
	channel string
}

func (d *Driver) inboxEntry(key string, c *driver.Claim) inboxEntry {
	return inboxEntry{d, key, c.ID, d.channel(key, c)}
}

// expect prepares for a message to the claim. Usually nobody listens or waits; then it does nothing.
func (e inboxEntry) expect() {
	if e.d.inboxes.Stands(e.channel) {
		e.d.inboxes.Expect(e.channel, label(e.id, e.key))
	}
}

// forget is the reverse of expect.
func (e inboxEntry) forget() {
	if e.d.inboxes.Stands(e.channel) {
		e.d.inboxes.Forget(e.channel, label(e.id, e.key))
	}
}

// A subscription is put off by a time for each claim ahead, up to a bound, since most of many claims that come at once are
// not in the queue yet. A lock is not handed from one process to the next faster than this, unless several claims ahead
// leave together; then the claim learns of its turn later.
//
// 1,000 clients that come for one name are in its queue after 0.17 and 0.27 s; without this after 0.34 and 0.36 (cd
// proof/bench && go run . -store=redis -only='^herd$', in turns).
const (
	putOffEach = 250 * time.Microsecond
	putOffMost = 250 * time.Millisecond
	putOffFrom = 8 // claims ahead
)

// listens subscribes the client of a waiting claim before the claim's turn comes.
func (e inboxEntry) listens(c *driver.Claim, p *driver.Place) {
	e.d.inboxes.Within(e.channel, putOff(c, p))
}

// putOff returns how long a waiting claim need not listen. Only exclusive claims hold one after another. Readers, and claims
// with a permit each, may all hold at once, so this claim may be the next.
func putOff(c *driver.Claim, p *driver.Place) time.Duration {
	if c.Weight != driver.All || p.Blocker.Weight != driver.All || p.Ahead < putOffFrom {
		return 0
	}
	return min(time.Duration(p.Ahead)*putOffEach, putOffMost)
}

// channel returns the channel for messages to a claim. In a cluster with sharded channels it has the key's hash tag, so that
// message and key are on the same server.
func (d *Driver) channel(key string, c *driver.Claim) string {
	if d.conn.Sharded() {
		return d.prefix + "inbox/" + key[len(d.prefix):] + "/" + c.Client
	}
	return d.clientChannel(c.Client)
}

// clientChannel returns the channel of a client's messages about all names; in a cluster with sharded channels, only about
// broken claims.
func (d *Driver) clientChannel(client string) string { return d.prefix + "inbox/" + client }

// listenable makes the inboxes, if the user may publish and receive the messages.
func (d *Driver) listenable(ctx context.Context) {
	waiting, anyone := d.channel(d.key(""), &driver.Claim{}), d.clientChannel("")
	var asks sync.WaitGroup
	if d.conn.Sharded() {
		asks.Go(func() { d.untold = d.conn.Lacking(ctx, waiting, "SPUBLISH", "SSUBSCRIBE") })
	}
	d.unheard = d.conn.Lacking(ctx, anyone, "PUBLISH", "SUBSCRIBE")
	if asks.Wait(); !d.conn.Sharded() {
		d.untold = d.unheard
	}
	var source inbox.Source = d.conn
	if len(d.untold) > 0 {
		source = mute{d.conn}
	}
	d.inboxes = inbox.New(source, parseTold)
	d.breaks = newBreakWatch(d.conn, d.inboxes, len(d.unheard) > 0)
}

// mute is a source without messages. With it, waiters poll.
type mute struct{ *conn.Conn }

var errMute = errors.New("redis lets this user not publish, or not listen")

// Subscribe implements [inbox.Source].
func (mute) Subscribe(context.Context, string, func(bool), func(string)) error { return errMute }

// traitsOfChannels sets the traits that depend on the channels, with a warning for each missing right.
func (d *Driver) traitsOfChannels(t *driver.Traits) {
	t.Wake, t.HearsBreak = "push", len(d.unheard) == 0
	if len(d.untold) > 0 {
		t.Wake = "poll"
		d.warnOfChannels(t, d.untold, "waiters ask for their turn ten times a second")
	}
	if !t.HearsBreak {
		d.warnOfChannels(t, d.unheard, "a holder learns at its next renewal that somebody broke its claim")
	}
}

func (d *Driver) warnOfChannels(t *driver.Traits, lacking []string, so string) {
	verbs := strings.Join(lacking, " and ")
	t.Warn("the channels "+d.prefix+"* and "+verbs+" in the ACL, and no rename-command",
		"The server does not let %s use %s with channels under %sinbox/, so %s.", d.conn.Who(), verbs, d.prefix, so)
}

// label returns a claim's name in messages. The id is not enough: a client uses one id for claims on several names.
func label(id, key string) string { return id + " " + key }

// parseTold parses a message, "ticket id key". Ticket 0 makes the claim enter again.
func parseTold(text string) (claim string, ticket int64, ok bool) {
	first, claim, _ := strings.Cut(text, " ")
	ticket, err := strconv.ParseInt(first, 10, 64)
	return claim, ticket, err == nil
}
