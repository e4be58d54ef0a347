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
	// listenAfter is how long a claim must hold until its client listens for a break. Who locks and unlocks sooner pays nothing.
	listenAfter = 100 * time.Millisecond

	// lookMostly is how many claims are renewed at once when the driver begins to listen, in case a message was sent before.
	lookMostly = 256

	// alarmEvery is how often messages about one claim may have it renewed: every user of the database can forge them.
	alarmEvery = time.Second
)

// ears lets a driver listen while its claims hold, so that it learns at once that somebody broke one. The transaction
// that removes the claim notifies the channel on which all listeners of the tables listen for watches: breaks are
// rare, and a claim that is alone has no channel in its row. A message only makes the driver renew its claim: the
// answer to that decides.
type ears struct {
	d      *Driver
	broken known.Broken // by id

	mu      sync.Mutex           // guards what follows
	tell    func(ids ...string)  // nil if nobody is to be told; then nothing is remembered
	claims  map[standing]*earful // that are in the store, until they leave or run out
	limit   known.Limit
	timed   bool // it is looked at soon whether to listen
	listens bool // a subscription has begun for the claims that hold, and has not ended
}

// A standing identifies a claim in the store, where its id is not known.
type standing struct {
	name   string
	ticket int64
}

// An earful is the driver's memory of a claim.
type earful struct {
	id      string
	holds   bool
	since   time.Time     // when it was first heard that it holds
	until   time.Duration // see [known.Until]
	alarmed time.Time     // the last time at which messages have it renewed, which may be yet to come
}

func newEars(d *Driver) *ears { return &ears{d: d, claims: map[standing]*earful{}} }

// alertTo sets who is told. Nothing is heard by a driver to which notifications do not come.
func (e *ears) alertTo(tell func(ids ...string)) {
	if e.d.deaf != "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tell = tell
}

// stands notes that a claim is in the store with a ticket, and that its lease begins now.
func (e *ears) stands(c *driver.Claim, ticket int64, holds bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tell == nil || ticket == 0 {
		return
	}
	if e.limit.Reached(len(e.claims)) {
		e.sweepLocked()
	}
	at := standing{c.Name, ticket}
	is := e.claims[at]
	if is == nil {
		is = &earful{id: c.ID}
		e.claims[at] = is
	}
	is.until = known.Until(c.TTL)
	if holds && !is.holds {
		is.holds, is.since = true, time.Now()
		e.scheduleLocked()
	}
}

// parts notes that a claim is not in the store any more, or is about to leave.
func (e *ears) parts(c *driver.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.claims, standing{c.Name, c.Ticket})
}

// sweepLocked forgets the claims that have run out, such as those that were left to another process.
func (e *ears) sweepLocked() {
	maps.DeleteFunc(e.claims, func(_ standing, c *earful) bool { return known.Over(c.until) })
	e.limit.Swept(len(e.claims))
}

// scheduleLocked checks soon whether to listen.
func (e *ears) scheduleLocked() {
	if !e.timed && !e.listens {
		e.timed = true
		time.AfterFunc(listenAfter, e.listenIfHeld)
	}
}

// listenIfHeld begins to listen if a claim has held for long enough.
func (e *ears) listenIfHeld() {
	e.mu.Lock()
	e.timed = false
	holds := false
	for _, c := range e.claims {
		holds = holds || c.holds
		e.listens = e.listens || c.holds && time.Since(c.since) >= listenAfter
	}
	begins := e.listens
	if holds {
		e.scheduleLocked()
	}
	e.mu.Unlock()
	if begins {
		e.d.inboxes.Within(e.d.channel, 0)
	}
}

// Keeps implements [inbox.Keeper].
func (e *ears) Keeps(string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweepLocked()
	e.listens = false
	for _, c := range e.claims {
		e.listens = e.listens || c.holds
	}
	return e.listens
}

// Stands implements [inbox.Keeper]. Breaks from before the driver listened are found by renewing.
func (e *ears) Stands(string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []string
	for _, c := range e.claims {
		if c.holds {
			ids = append(ids, c.id)
		}
	}
	if len(ids) > 0 && len(ids) <= lookMostly {
		e.alert(e.tell, ids...)
	}
}

// Told implements [inbox.Keeper]. No break is reported on a driver's own channel.
func (e *ears) Told(string, string) {}

// told takes a message about a claim that was broken. It returns the id of the claim, which may wait, if it is one of this
// driver's, and whether the message is about a break at all.
func (e *ears) told(text string) (id string, ok bool) {
	at, record, ok := parseBroken(text)
	if !ok {
		return "", false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.claims[at]
	if c == nil {
		return "", true
	}
	e.broken.Heard(c.id, record)
	now := time.Now()
	if c.alarmed.After(now) {
		return c.id, true // a renewal is to come
	}
	if c.alarmed = c.alarmed.Add(alarmEvery); c.alarmed.Before(now) {
		c.alarmed = now
	}
	tell := e.tell
	time.AfterFunc(c.alarmed.Sub(now), func() { e.alert(tell, c.id) })
	return c.id, true
}

// alert has claims renewed at once, unless the driver is closed.
func (e *ears) alert(tell func(ids ...string), ids ...string) {
	e.d.link.Go(func() { tell(ids...) })
}

// explain says of a claim that is gone that it was broken, if a message has said so, and forgets the claim.
func (e *ears) explain(c *driver.Claim, err error) error {
	if !errors.Is(err, driver.ErrGone) {
		return err
	}
	e.parts(c)
	return e.broken.Explain(c.ID, err)
}

// brokenMark begins a message about a claim that was broken. Older clients expect the name of a queue in hexadecimal
// on this channel, and pass it over.
const brokenMark = "broken "

// parseBroken takes such a message apart: the mark, the name in hexadecimal, the ticket, and the record in base64, which the
// server takes whatever the encoding of the database is.
func parseBroken(text string) (at standing, record string, ok bool) {
	rest, ok := strings.CutPrefix(text, brokenMark)
	words := strings.Split(rest, " ")
	if !ok || len(words) != 3 {
		return standing{}, "", false
	}
	name, bad := hex.DecodeString(words[0])
	ticket, worse := strconv.ParseInt(words[1], 10, 64)
	text64, worst := base64.StdEncoding.DecodeString(words[2])
	if bad != nil || worse != nil || worst != nil {
		return standing{}, "", false
	}
	return standing{string(name), ticket}, string(text64), true
}

// Break is [driver.Breaker]. With the longest name and the longest record the message has 5,999 bytes, and PostgreSQL takes 7,999.
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
	case a.status == "gone":
		return driver.ClaimInfo{}, d.failover.gone()
	}
	a.finish()
	return a.blocker, nil
}

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.failover.alert(endangered)
	d.ears.alertTo(endangered)
}
