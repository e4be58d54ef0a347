package drivertest

import (
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// The cases of a client that is alerted when somebody breaks its claim.
var hearCases = []Case{
	{"BreakIsHeard", "With HearsBreak, the client of a claim that somebody breaks is alerted at once, however long it was idle.", 0,
		breakIsHeard},
	{"BreakIsHeardByEach", "With HearsBreak, a driver with claims of several clients, as in a lock service, is alerted of each.", 0,
		breakIsHeardByEach},
	{"BreakIsOfOne", "A break ends one claim: what its client learns ends no other.", 0, breakIsOfOne},
}

const (
	idleBefore = 12 * time.Second // longer than a client goes on listening without need
	idleLease  = time.Hour        // how long a suite may leave a client idle while other cases run
)

// An ear is a client that is alerted, with the alerts that it got.
type ear struct {
	driver.Driver
	client string // of its claims
	alerts chan []string
}

// ear opens a client that is alerted. The suite closes it.
func (r *run) ear() *ear {
	e := &ear{r.store.Open(r), r.claim().Client, make(chan []string, 1000)}
	r.Cleanup(func() { e.Close() })
	if a, ok := e.Driver.(driver.Alerter); ok {
		a.Alert(func(ids ...string) {
			select {
			case e.alerts <- ids:
			default:
				r.Errorf("the client is alerted without end")
			}
		})
	} else if r.traits.HearsBreak {
		r.Fatalf("the driver is no Alerter; want one, as the traits have HearsBreak")
	}
	return e
}

// held enters a claim of this client, which must hold, to a name. Its lease may be [idleLease]; 0 means the usual lease.
func (e *ear) held(r *run, name string, lease time.Duration) *driver.Claim {
	r.Helper()
	c := r.claim()
	c.Name, c.Client = name, e.client
	if lease > 0 {
		c.TTL, c.Wait = lease, lease
	}
	c.Ticket = r.holds(e, c).Ticket
	return c
}

// alerted reports whether the client has been alerted of a claim.
func (e *ear) alerted(id string) bool {
	for {
		select {
		case ids := <-e.alerts:
			if slices.Contains(ids, id) {
				return true
			}
		default:
			return false
		}
	}
}

// breaks lets another client break a claim, and checks the claim that Break returns.
func (r *run) breaks(c *driver.Claim, record string) {
	r.Helper()
	s, err := r.b.(driver.Breaker).Break(r.ctx, &driver.BreakRequest{Name: c.Name, Ticket: c.Ticket, Record: record})
	if err != nil || s.Ticket != c.Ticket {
		r.Fatalf("break of ticket %d = %+v, %v; want the claim", c.Ticket, s, err)
	}
}

// broken fails unless an error says that a claim is gone. If the error says that somebody broke the claim, it must have the
// record.
func (r *run) broken(what, record string, err error) {
	r.Helper()
	r.gone(what, err)
	if b, ok := errors.AsType[*driver.BrokenError](err); ok && b.Record != record && b.Record != "" {
		r.Errorf("%s says that it was broken with the record %q; want %q", what, b.Record, record)
	}
}

func breakIsHeard(r *run) {
	if _, ok := r.b.(driver.Breaker); !ok || !r.traits.HearsBreak {
		return
	}
	e := r.ear()
	holder, spared := e.held(r, r.name, idleLease), e.held(r, r.name+"/other", idleLease)
	for _, idle := range []time.Duration{0, idleBefore} {
		r.pass(idle)
		const record = "who broke it, and why"
		r.breaks(holder, record)
		r.ends(2*r.store.Wake, "the holder's client is alerted", func() bool { return e.alerted(holder.ID) })
		r.broken("renewal of the claim that was broken", record, e.Renew(r.ctx, []*driver.Claim{holder})[0].Err)
		holder = e.held(r, r.name, idleLease)
	}
	if a := e.Renew(r.ctx, []*driver.Claim{spared})[0]; a.Err != nil {
		r.Errorf("renewal of another claim of the client = %v; want nil", a.Err)
	}
	r.leave(e, spared)
	r.leave(e, holder)
}

// breakIsHeardByEach lets the claim of a second client hold when the driver already listens for the first.
func breakIsHeardByEach(r *run) {
	if _, ok := r.b.(driver.Breaker); !ok || !r.traits.HearsBreak {
		return
	}
	first := r.ear()
	second := &ear{first.Driver, r.claim().Client, first.alerts}
	begun := first.held(r, r.name, idleLease)
	r.pass(time.Second)
	later := second.held(r, r.name+"/other", idleLease)
	for _, c := range []*driver.Claim{later, begun} {
		r.breaks(c, "")
		r.ends(2*r.store.Wake, "the driver is alerted of the claim of "+c.Name, func() bool { return first.alerted(c.ID) })
	}
}

func breakIsOfOne(r *run) {
	if _, ok := r.b.(driver.Breaker); !ok {
		return
	}
	e := r.ear()
	var all []*driver.Claim
	for range 3 {
		all = append(all, e.held(r, r.name+"/"+rand.Text(), 0))
	}
	r.breaks(all[1], "")
	for i, a := range e.Renew(r.ctx, all) {
		if i == 1 {
			r.broken("renewal of the claim that was broken", "", a.Err)
		} else if a.Err != nil {
			r.Errorf("renewal of a claim beside the one that was broken = %v; want nil", a.Err)
		}
	}
	r.leave(e, all[0])
	r.leave(e, all[2])
}
