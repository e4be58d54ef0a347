package redis

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/inbox"
	"github.com/stilelock/stile/internal/known"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

const (
	// listenAfter is how long a claim must hold until its client listens for a break. A shorter lock costs nothing more.
	listenAfter = 100 * time.Millisecond

	// lookMostly is how many claims are renewed at once after a subscription was lost, in case a message was lost.
	lookMostly = 256

	// alarmEvery is how often messages about one claim may cause a renewal, since anybody who may publish can forge them.
	alarmEvery = time.Second
)

// A breakWatch lets a client listen while its claims hold, so that it learns of a break at once. Each client has one
// subscription, the one on which it waits. In a cluster with sharded channels it has another one, whose messages go to all
// servers, since breaks are rare. A message only makes the claim be renewed: the answer to that decides.
type breakWatch struct {
	conn     *conn.Conn
	inboxes  *inbox.Set // nil if this user may not send or receive messages about breaks
	endanger atomic.Pointer[func(ids ...string)]
	broken   known.Broken // by label

	mu      sync.Mutex                // guards the fields below
	clients map[string]*holdingClient // by channel
}

// A holdingClient is a channel, and the claims of its client that hold.
type holdingClient struct {
	held   map[heldBy]*heldSince
	limit  known.Limit // the limit of held
	timed  bool        // a timer will check whether to listen
	listen bool        // a subscription has begun for its claims, and has not ended
}

type heldBy struct{ id, key string }

type heldSince struct {
	since, alarmed time.Time
	until          time.Duration // when it is surely over without a renewal by this client; by boottime
}

// forgetOver forgets the claims that another process renews, or that are over.
func (at *holdingClient) forgetOver() {
	maps.DeleteFunc(at.held, func(_ heldBy, c *heldSince) bool { return known.Over(c.until) })
	at.limit.Swept(len(at.held))
}

func newBreakWatch(c *conn.Conn, waiting *inbox.Set, unheard bool) *breakWatch {
	w := &breakWatch{conn: c, inboxes: waiting, clients: map[string]*holdingClient{}}
	if unheard {
		w.inboxes = nil
		return w
	}
	if c.Sharded() {
		waiting.Subscriber = knower{&w.broken}
		w.inboxes = inbox.New(broad{c}, func(string) (string, int64, bool) { return "", 0, false })
	}
	w.inboxes.Subscriber = w
	return w
}

// broad is a source whose channels are on all servers.
type broad struct{ *conn.Conn }

// Subscribe implements [inbox.Source].
func (b broad) Subscribe(ctx context.Context, channel string, stands func(bool), told func(string)) error {
	return b.SubscribeBroad(ctx, channel, stands, told)
}

// holds notes that a claim of a channel's client holds, whose lease begins now.
func (w *breakWatch) holds(channel, id, key string, ttl time.Duration) {
	if w.inboxes == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.clients[channel]
	if at == nil {
		at = &holdingClient{held: map[heldBy]*heldSince{}}
		w.clients[channel] = at
	}
	by := heldBy{id, key}
	c := at.held[by]
	if c == nil {
		if at.limit.Reached(len(at.held)) {
			at.forgetOver()
		}
		c = &heldSince{since: time.Now()}
		at.held[by] = c
		w.scheduleLocked(channel, at)
	}
	c.until = known.Until(ttl)
}

// scheduleLocked schedules a check whether to listen.
func (w *breakWatch) scheduleLocked(channel string, at *holdingClient) {
	if !at.timed && !at.listen {
		at.timed = true
		time.AfterFunc(listenAfter, func() { w.begin(channel) })
	}
}

// begin begins to listen if a claim has held for listenAfter.
func (w *breakWatch) begin(channel string) {
	w.mu.Lock()
	at := w.clients[channel]
	if at == nil {
		w.mu.Unlock()
		return
	}
	at.timed = false
	for _, c := range at.held {
		at.listen = at.listen || time.Since(c.since) >= listenAfter
	}
	begins := at.listen
	switch {
	case begins:
	case len(at.held) > 0:
		w.scheduleLocked(channel, at)
	default:
		delete(w.clients, channel)
	}
	w.mu.Unlock()
	if begins {
		w.inboxes.Within(channel, 0)
	}
}

// parts notes that a claim no longer holds.
func (w *breakWatch) parts(channel, id, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.clients[channel]
	if at == nil {
		return
	}
	delete(at.held, heldBy{id, key})
	if len(at.held) == 0 && !at.listen && !at.timed {
		delete(w.clients, channel)
	}
}

// Needs implements [inbox.Subscriber].
func (w *breakWatch) Needs(channel string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.clients[channel]
	if at == nil {
		return false
	}
	if at.forgetOver(); len(at.held) > 0 {
		return true
	}
	delete(w.clients, channel)
	return false
}

// Subscribed implements [inbox.Subscriber]. It renews claims in place of messages from before the subscription stood.
func (w *breakWatch) Subscribed(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.clients[channel]
	if at == nil || len(at.held) > lookMostly {
		return
	}
	ids := make([]string, 0, len(at.held))
	for c := range at.held {
		ids = append(ids, c.id)
	}
	w.alert(ids)
}

// A knower learns why a waiting claim will be gone, on the channel on which the claim is woken. It keeps no subscription.
type knower struct{ broken *known.Broken }

// Needs implements [inbox.Subscriber].
func (knower) Needs(string) bool { return false }

// Subscribed implements [inbox.Subscriber].
func (knower) Subscribed(string) {}

// Received implements [inbox.Subscriber].
func (k knower) Received(_, text string) {
	if id, key, record, ok := parseBroken(text); ok {
		k.broken.Heard(label(id, key), record)
	}
}

// Received implements [inbox.Subscriber].
func (w *breakWatch) Received(channel, text string) {
	id, key, record, ok := parseBroken(text)
	if !ok {
		return
	}
	w.broken.Heard(label(id, key), record)
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.clients[channel]
	if at == nil {
		return
	}
	if c := at.held[heldBy{id, key}]; c != nil && time.Since(c.alarmed) >= alarmEvery {
		c.alarmed = time.Now()
		w.alert([]string{id})
	}
}

// alert asks for claims to be renewed at once.
func (w *breakWatch) alert(ids []string) {
	if f := w.endanger.Load(); f != nil && len(ids) > 0 {
		w.conn.Go(func() { (*f)(ids...) })
	}
}

// explain returns the error of a claim that is gone: a [*driver.BrokenError] if a message has said so.
func (w *breakWatch) explain(c *driver.Claim, key string, err error) error {
	if err == nil {
		return nil
	}
	return w.broken.Explain(label(c.ID, key), err)
}

// parseBroken decodes a message about a broken claim: "broken", the length of the record, the record, id and key. Older
// clients do not know this message, and ignore it.
func parseBroken(text string) (id, key, record string, ok bool) {
	rest, ok := strings.CutPrefix(text, "broken ")
	if !ok {
		return "", "", "", false
	}
	size, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > driver.MaxRecord || n >= len(rest) || rest[n] != ' ' {
		return "", "", "", false
	}
	id, key, ok = strings.Cut(rest[n+1:], " ")
	return id, key, rest[:n], ok
}

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) { d.breaks.endanger.Store(&endangered) }
