// Package quorum makes one store out of several that are independent of each other: a claim holds while it holds on a
// majority of them. With Redis servers as nodes this is called Redlock; package redis registers it as redlock://.
//
// A majority is more than half of the configured nodes, whether they answer or not. So two claims never have one at the same
// time, and a minority may be down.
//
// # How a claim enters
//
// [Driver.Enter] asks all nodes at once. Each node grants the claim, or shows the claim in its way. The claim holds once a
// majority has granted it with one ticket; if the tickets of a majority differ, Enter first raises them to one. If the claim
// gets no majority, Enter takes it out of the nodes again, and the claim waits at one node, the lead (lead.go). When the
// lead may be free, the next Enter asks the lead before the others. If no other claim has a majority either, Enter tries
// again itself.
//
// # What a node must not do
//
// Everything rests on this: a node that granted a claim does not grant another before the first has left or run out. A node
// that forgets, by a restart without its data or by eviction, can make two majorities out of one. So the client asks a node
// that is a [Member] who it is: when it is opened, on each new connection and every [Options.CheckEvery]. A member that was
// restarted and may have forgotten claims does not vote until the longest lease, [Options.MaxTTL], is over. Neither does a
// member in whose place another server is, or whose clock was moved. No server has two votes.
//
// # Tickets
//
// Members agree on tickets that rise; a majority of members is ranked. Otherwise a claim's ticket only distinguishes it
// from other claims. Each member gives a claim a ticket above all that it knows of, and the claim's ticket T is the highest
// of its majority. Before T is used, each node of a majority has confirmed that the claim stands there with T, and that all
// later tickets are higher. Any two majorities have a node in common, and there the later claim got its ticket after the
// earlier one was confirmed. Clients propose a ticket with their request, slightly ahead of all nodes' clocks. So the nodes
// mostly answer with the same T at once, and these answers are the confirmation too.
//
// # Changes
//
// If all nodes are members, a claim that holds can get another record. The record has a version, which shows which of two
// records is the later one (record.go). A process takes up a claim that another process entered by its ticket (resume.go).
//
// # How it is made
//
// The decisions are pure. A majority is a value: votes go in, with this client's knowledge of the claim, and a decision
// about the claim comes out. TestDecisions checks it against all that three nodes may answer. TestWalk walks all states of
// two claims that enter, hold and leave. It knows no leases, leads, repairs or resumptions; TestSimulation draws worlds with
// the first three from seeds. The calls are methods of [Driver], and only sendLocked sends requests that change a claim on a
// node:
//
//	          ┌─────────────────────────────────────────────────────────┐
//	          │                                    votes, as they come  │
//	          ▼                                                         │
//	majority: is it settled? does it hold, and ──► a question ──► rounds: each node, after its
//	with which ticket? what is taken out?          of a call        earlier requests about the claim
//
// Only requests that change nothing bypass the rounds: an Await, a look whether the lead is free, and a member's report.
//
// At its client a claim is in one of these states, or in none. A claim in the table of claims holds: holdLocked puts it
// there, and releaseLocked takes it away:
//
//	 Enter   ┌──────────┐ most nodes grant it, and know its ticket: won ┌─────────┐ Leave
//	────────►│ entering ├──────────────────────────────────────────────►│ holding ├──────► left
//	     ┌──►└─────┬────┘                                               └──▲───┬──┘
//	     │         │ others are in the way:                                │   │ most lack it:
//	     │   ┌─────▼────┐ missedOut, or late if only the lead was asked    │   │ renewAll, repair
//	     └───┤ waiting  │                                                  │   ▼
//	   Await └──────────┘  Renew of a claim that     ┌──────────┐ finish   │  gone
//	                       another process entered   │          ├──────────┘   ▲
//	                      ──────────────────────────►│ resuming │              │
//	                                                 │          ├──────────────┘
//	                                                 └──────────┘ most lack it, or it leaves
//
// A claim that enters and gets no majority is taken out of the nodes again, before it waits or fails. If a request that
// could undo a later attempt has no known outcome on a node, the claim has another id there from then on (ids.go). The nodes
// that lack a claim that holds get it again (repair.go).
//
// The parts are
//
//   - the majority (majority.go), with its votes (vote.go), and its judgement on the claims of others (blocker.go);
//   - the nodes (nodes.go), with their identity and whether they vote (node.go);
//   - the rounds (round.go), their order at each node (order.go), and the workers that run them (workers.go);
//   - the claims that hold (hold.go), and the ids that were drawn (ids.go);
//   - the leads (lead.go, leads.go) and the contention (contention.go), which decide only when requests are sent.
//
// The claims, the rounds and the workers share one mutex, since a claim takes its places in the nodes' queues at the moment
// at which it changes. A method that ends in Locked is for a caller that holds this mutex.
package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// Options change how a quorum works. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Store      string        // the store's name in the traits; "quorum" if empty
	MaxTTL     time.Duration // longest lease, and how long a node that may have forgotten does not vote; 0 means a minute
	Timeout    time.Duration // for a node's answer; 0 means a quarter of the lease, for a Leave of MaxTTL, from 50 ms to 2 s
	CheckEvery time.Duration // how often members are asked who they are; 0 means 5 s
	ClockStep  time.Duration // by how much a node's clock may move against ours between two checks; 0 means 250 ms
}

func (o *Options) fill() {
	if o.Store == "" {
		o.Store = "quorum"
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = time.Minute
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = 5 * time.Second
	}
	if o.ClockStep == 0 {
		o.ClockStep = 250 * time.Millisecond
	}
}

// fewest is the smallest number of nodes: if one is down, a majority must be left.
const fewest = 3

// waitingTicket is the ticket of a claim that waits: the nodes have nothing of it. Real tickets are larger.
const waitingTicket = 1

// A Driver keeps locks on a majority of its nodes. Its methods are safe for concurrent use.
type Driver struct {
	o          Options
	rule       majority
	nodes      *nodes
	rounds     *rounds
	workers    *workers
	ids        *ids
	leads      *leads
	contention *contention
	claims     *claims
	mu         sync.Mutex // shared by the claims, the rounds and the workers; see the package comment
}

// New makes a store of an odd number of nodes, at least three. It returns when all are connected, or when a majority is and
// the rest has failed; the driver tries these again later. The store owns the nodes, even if New fails. A nil o means the
// defaults.
//
// The result is a [driver.Lister] and a [driver.Breaker] if all nodes are members.
func New(ctx context.Context, nodes []Node, o *Options) (driver.Driver, error) {
	if o == nil {
		o = &Options{}
	}
	d := &Driver{o: *o, rule: majorityOf(nodes), ids: &ids{drawn: map[string]*claimIDs{}}, leads: newLeads()}
	d.o.fill()
	d.contention = &contention{names: map[string]int{}}
	d.workers = newWorkers(&d.mu)
	d.nodes = newNodes(nodes, &d.o, d.ids)
	d.rounds = &rounds{
		nodes: d.nodes.list, need: d.rule.need, workers: d.workers, mu: &d.mu, queues: map[nodeQueue]chan struct{}{},
	}
	d.claims = &claims{ids: d.ids, leads: d.leads, mu: &d.mu, held: map[string]*holding{}, resuming: map[string]*resumption{}}
	if err := d.connect(ctx, nodes); err != nil {
		d.Close()
		return nil, err
	}
	if !d.rule.ranked {
		return d, nil
	}
	return &observed{d}, nil
}

// timeout returns how long the nodes may take to answer for a claim.
func (d *Driver) timeout(ttl time.Duration) time.Duration {
	if d.o.Timeout > 0 {
		return d.o.Timeout
	}
	return min(max(ttl/4, 50*time.Millisecond), 2*time.Second)
}

// partingWithin bounds how long Close waits for claims to leave.
const partingWithin = time.Second

// Close ends every call, and closes the nodes. Claims that are leaving have partingWithin to do so.
func (d *Driver) Close() error {
	d.workers.end()
	var errs []error
	for _, n := range d.nodes.list {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}
