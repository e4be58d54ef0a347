package postgres

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

const (
	// listenAfter is how long a claim must hold until its client listens for a break. A shorter lock costs nothing more.
	listenAfter = 100 * time.Millisecond

	// lookMostly is how many claims are renewed at once when the driver begins to listen, in case of an earlier break.
	lookMostly = 256

	// alarmEvery is how often messages may renew one claim: every user of the database can forge them.
	alarmEvery = time.Second
)

// A breakWatch lets a driver listen while its claims hold, so that it learns of a break at once. The transaction that
// removes the claim notifies the channel for watches, to which all listeners of the tables listen: breaks are rare, and a
// lone claim has no channel in its row. A message only makes the driver renew its claim: the answer to that decides.
type breakWatch struct {
	d      *Driver
	broken known.Broken // by id

	mu       sync.Mutex                 // guards the fields below
	endanger func(ids ...string)        // nil if nobody wants alerts; then nothing is remembered
	claims   map[claimKey]*watchedClaim // claims in the store, until they leave or run out
	limit    known.Limit
	timed    bool // a check whether to listen is scheduled
	listens  bool // a subscription has begun for the claims that hold, and has not ended
}

// A claimKey identifies a claim in the store by its name and ticket, since a message has no id.
type claimKey struct {
	name   string
	ticket int64
}

// A watchedClaim is the driver's memory of a claim.
type watchedClaim struct {
	id      string
	holds   bool
	since   time.Time     // when the driver learned that it holds
	until   time.Duration // see [known.Until]
	alarmed time.Time     // the last time at which messages renew it; may lie in the future
}

func newBreakWatch(d *Driver) *breakWatch {
	return &breakWatch{d: d, claims: map[claimKey]*watchedClaim{}}
}

// alertTo sets the function that gets the ids of claims in danger. A driver without notifications never calls it.
func (w *breakWatch) alertTo(endanger func(ids ...string)) {
	if w.d.pollReason != "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endanger = endanger
}

// stands notes that a claim is in the store with a ticket, and that its lease begins now.
func (w *breakWatch) stands(c *driver.Claim, ticket int64, holds bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endanger == nil || ticket == 0 {
		return
	}
	if w.limit.Reached(len(w.claims)) {
		w.sweepLocked()
	}
	at := claimKey{c.Name, ticket}
	is := w.claims[at]
	if is == nil {
		is = &watchedClaim{id: c.ID}
		w.claims[at] = is
	}
	is.until = known.Until(c.TTL)
	if holds && !is.holds {
		is.holds, is.since = true, time.Now()
		w.scheduleLocked()
	}
}

// parts notes that a claim is no longer in the store, or is about to leave.
func (w *breakWatch) parts(c *driver.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.claims, claimKey{c.Name, c.Ticket})
}

// sweepLocked forgets the claims that have run out, such as claims that another process renews.
func (w *breakWatch) sweepLocked() {
	maps.DeleteFunc(w.claims, func(_ claimKey, c *watchedClaim) bool { return known.Over(c.until) })
	w.limit.Swept(len(w.claims))
}

// scheduleLocked schedules a check whether to listen.
func (w *breakWatch) scheduleLocked() {
	if !w.timed && !w.listens {
		w.timed = true
		time.AfterFunc(listenAfter, w.listenIfHeld)
	}
}

// listenIfHeld begins to listen if a claim has held for listenAfter.
func (w *breakWatch) listenIfHeld() {
	w.mu.Lock()
	w.timed = false
	holds := false
	for _, c := range w.claims {
		holds = holds || c.holds
		w.listens = w.listens || c.holds && time.Since(c.since) >= listenAfter
	}
	begins := w.listens
	if holds {
		w.scheduleLocked()
	}
	w.mu.Unlock()
	if begins {
		w.d.inboxes.Within(w.d.channel, 0)
	}
}

// Needs implements [inbox.Subscriber].
func (w *breakWatch) Needs(string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
	w.listens = false
	for _, c := range w.claims {
		w.listens = w.listens || c.holds
	}
	return w.listens
}

// Subscribed implements [inbox.Subscriber]. A renewal finds breaks from before the driver listened.
func (w *breakWatch) Subscribed(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for _, c := range w.claims {
		if c.holds {
			ids = append(ids, c.id)
		}
	}
	if len(ids) > 0 && len(ids) <= lookMostly {
		w.alert(w.endanger, ids...)
	}
}

// Received implements [inbox.Subscriber]. No break is reported on a driver's own channel.
func (w *breakWatch) Received(string, string) {}

// told handles a message about a broken claim. It returns the id of the claim, which may wait, if it is this driver's, and
// whether the message is about a break at all.
func (w *breakWatch) told(text string) (id string, ok bool) {
	at, record, ok := parseBroken(text)
	if !ok {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.claims[at]
	if c == nil {
		return "", true
	}
	w.broken.Heard(c.id, record)
	now := time.Now()
	if c.alarmed.After(now) {
		return c.id, true // a renewal is scheduled
	}
	if c.alarmed = c.alarmed.Add(alarmEvery); c.alarmed.Before(now) {
		c.alarmed = now
	}
	endanger := w.endanger
	time.AfterFunc(c.alarmed.Sub(now), func() { w.alert(endanger, c.id) })
	return c.id, true
}

// alert asks for claims to be renewed at once, unless the driver is closed.
func (w *breakWatch) alert(endanger func(ids ...string), ids ...string) {
	w.d.link.Go(func() { endanger(ids...) })
}

// explain returns the error of a claim that is gone: a [*driver.BrokenError] if a message has said so. It forgets the claim.
func (w *breakWatch) explain(c *driver.Claim, err error) error {
	if !errors.Is(err, driver.ErrGone) {
		return err
	}
	w.parts(c)
	return w.broken.Explain(c.ID, err)
}

// brokenMark begins a message about a broken claim. Older clients expect the name of a queue in hexadecimal on this channel,
// and ignore the message.
const brokenMark = "broken "

// parseBroken parses such a message: the mark, the name in hexadecimal, the ticket, and the record in base64, which is valid
// in any encoding of the database.
func parseBroken(text string) (at claimKey, record string, ok bool) {
	rest, ok := strings.CutPrefix(text, brokenMark)
	words := strings.Split(rest, " ")
	if !ok || len(words) != 3 {
		return claimKey{}, "", false
	}
	name, bad := hex.DecodeString(words[0])
	ticket, worse := strconv.ParseInt(words[1], 10, 64)
	text64, worst := base64.StdEncoding.DecodeString(words[2])
	if bad != nil || worse != nil || worst != nil {
		return claimKey{}, "", false
	}
	return claimKey{string(name), ticket}, string(text64), true
}

// Break is [driver.Breaker]. With the longest name and the longest record the message has 5,999 bytes, and PostgreSQL takes
// 7,999.
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	a := &answer{}
	record := base64.StdEncoding.EncodeToString([]byte(b.Record))
	err := d.link.Query(ctx, d.statements.breaks, []any{[]byte(b.Name), b.Ticket, record}, func(rows pgx.Rows) error {
		return rows.Scan(append(a.columns(), nil)...)
	})
	switch {
	case err != nil:
		return driver.ClaimInfo{}, err
	case a.status == "":
		return driver.ClaimInfo{}, errShort
	case a.status == "gone":
		return driver.ClaimInfo{}, d.failover.gone()
	}
	a.finish()
	return a.blocker, nil
}

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.failover.alert(endangered)
	d.breaks.alertTo(endangered)
}
