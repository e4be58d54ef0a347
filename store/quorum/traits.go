package quorum

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A promise is the nodes' common promise, as far as they were asked.
type promise struct {
	d       *Driver
	t       driver.Traits
	keeps   bool                // all nodes agree on tickets, and keep every claim and ticket
	push    bool                // all nodes notify waiters
	forgets map[string][]string // which nodes may forget, and in which event
}

// Traits returns the weakest of the promises of all open nodes.
func (d *Driver) Traits() driver.Traits {
	p := &promise{d: d, keeps: d.rule.ranked, push: d.rule.ranked, forgets: map[string][]string{}}
	p.t = driver.Traits{
		Store: d.o.Store, Delay: true, Asks: d.rule.ranked, Amends: d.rule.ranked, Restart: true, Wake: "poll",
		MinTTL: time.Millisecond, MaxTTL: d.o.MaxTTL,
	}
	p.t.Note("Claims hold while %d of %d nodes have them, so %d may be down: exclusive locks only, in no order.",
		d.rule.need, len(d.nodes.list), len(d.nodes.list)-d.rule.need)
	for _, n := range d.nodes.list {
		p.add(n)
	}
	return p.all()
}

// add adds one node's promise.
func (p *promise) add(n *node) {
	store := n.driver.Load()
	if store == nil {
		p.t.Restart, p.t.Asks, p.keeps = false, false, false
		p.t.Warn("", "Node %s is not connected, so what it promises is not known.", n.name)
		return
	}
	own := (*store).Traits()
	p.weaken(&own)
	if _, member := (*store).(Member); !member {
		for _, n := range own.Notes {
			p.t.Note("%s", n)
		}
		p.t.Warnings = append(p.t.Warnings, own.Warnings...)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.report == nil:
		p.keeps = false
	case !n.report.Keeps:
		p.keeps = false
		p.forgets[n.report.Reason] = append(p.forgets[n.report.Reason], n.name)
	}
}

// weaken makes the promise no stronger than one node's.
func (p *promise) weaken(own *driver.Traits) {
	t := &p.t
	t.Delay = t.Delay && own.Delay
	t.Asks = t.Asks && own.Asks
	t.Amends = t.Amends && own.Amends
	t.Restart = t.Restart && own.Restart
	t.InSession = t.InSession || own.InSession
	t.OwnClient = t.OwnClient || own.OwnClient
	p.push = p.push && own.Wake == "push"
	t.MinTTL, t.Granularity = max(t.MinTTL, own.MinTTL), max(t.Granularity, own.Granularity)
	if own.MaxTTL > 0 {
		t.MaxTTL = min(t.MaxTTL, own.MaxTTL)
	}
	if t.Clock == "" || own.Clock == "session" {
		t.Clock = own.Clock
	}
}

// all returns the nodes' common promise.
func (p *promise) all() driver.Traits {
	o := &p.d.o
	for _, reason := range slices.Sorted(maps.Keys(p.forgets)) {
		who := "All nodes"
		if names := p.forgets[reason]; len(names) < len(p.d.nodes.list) {
			who = strings.Join(names, ", ")
		}
		p.t.Warn("appendonly yes, appendfsync always, maxmemory-policy noeviction",
			"%s may forget what they granted (%s).", who, reason)
	}
	if p.push {
		p.t.Wake = "push"
	}
	p.t.Failover = p.t.Restart
	switch {
	case !p.d.rule.ranked:
		p.t.Note("The nodes do not agree on tickets, so tokens only tell claims apart.")
		p.t.Note("A node that loses a claim while it holds can let two hold a lock.")
	case p.keeps:
		p.t.Fencing = driver.ClockFencing
	default:
		p.t.Note("For efficiency only: not all nodes keep what they granted. One that was restarted does not vote for %v, but "+
			"what is evicted from memory is not missed, and tokens rise only while no node forgets.", o.MaxTTL)
	}
	if p.d.rule.ranked {
		p.t.Note("Leases end by the wall clocks of the nodes: one whose clock is moved by more than %v does not vote for %v, "+
			"from when that is noticed, within %v.", o.ClockStep, o.MaxTTL, o.CheckEvery)
	}
	return p.t
}
