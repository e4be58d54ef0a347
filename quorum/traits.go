package quorum

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// Traits are what all nodes can promise that are open, the weakest deciding.
func (d *Driver) Traits() driver.Traits {
	t := driver.Traits{
		Store: d.o.Store, Delay: true, Restart: true, Wake: "poll",
		MinTTL: time.Millisecond, MaxTTL: d.o.MaxTTL,
		Notes: []string{fmt.Sprintf("Claims hold while %d of %d nodes have them, so %d may be down: exclusive locks alone, in no order.",
			d.need, len(d.nodes), len(d.nodes)-d.need)},
	}
	keeps, push := d.ranked, d.ranked
	forgets := map[string][]string{} // which nodes may, by what
	for _, n := range d.nodes {
		store := n.driver.Load()
		if store == nil {
			t.Restart, keeps = false, false
			t.Notes = append(t.Notes, fmt.Sprintf("Node %s is not connected, so what it promises is not known.", n.name))
			continue
		}
		own := (*store).Traits()
		t.Delay = t.Delay && own.Delay
		t.Restart = t.Restart && own.Restart
		t.InSession = t.InSession || own.InSession
		t.OwnClient = t.OwnClient || own.OwnClient
		push = push && own.Wake == "push"
		t.MinTTL, t.Granularity = max(t.MinTTL, own.MinTTL), max(t.Granularity, own.Granularity)
		if own.MaxTTL > 0 {
			t.MaxTTL = min(t.MaxTTL, own.MaxTTL)
		}
		if t.Clock == "" || own.Clock == "session" {
			t.Clock = own.Clock
		}
		if _, member := (*store).(Member); !member {
			t.Notes = append(t.Notes, own.Notes...)
			continue
		}
		n.mu.Lock()
		if n.report == nil || !n.report.Keeps {
			keeps = false
			if n.report != nil {
				forgets[n.report.Reason] = append(forgets[n.report.Reason], n.name)
			}
		}
		n.mu.Unlock()
	}
	for _, reason := range slices.Sorted(maps.Keys(forgets)) {
		who := "All nodes"
		if names := forgets[reason]; len(names) < len(d.nodes) {
			who = strings.Join(names, ", ")
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s may forget what they granted (%s).", who, reason))
	}
	if push {
		t.Wake = "push"
	}
	t.Failover = t.Restart
	switch {
	case !d.ranked:
		t.Notes = append(t.Notes, "The nodes do not agree on tickets, so tokens only tell claims apart.",
			"A node that loses a claim while it holds can let two hold a lock.")
	case keeps:
		t.Fencing = driver.ClockFencing
	default:
		t.Notes = append(t.Notes, fmt.Sprintf("For efficiency only: not all nodes keep what they granted. One that was restarted does not vote for %v, but what is evicted from memory is not missed, and tokens rise only while no node forgets.", d.o.MaxTTL))
	}
	if d.ranked {
		t.Notes = append(t.Notes, fmt.Sprintf("Leases end by the wall clocks of the nodes: one whose clock is moved by more than %v does not vote for %v, from when that is noticed, within %v.", d.o.ClockStep, d.o.MaxTTL, d.o.CheckEvery))
	}
	t.Notes = slices.Compact(t.Notes)
	return t
}
