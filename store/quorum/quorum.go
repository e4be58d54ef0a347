// Package quorum makes one store out of several that are independent of each other: a claim holds while it holds on a
// majority of them. With Redis servers as nodes this is called Redlock; package redis registers it as redlock://.
//
// A majority is one of the configured nodes, whether they answer or not, so two claims never have one at the same time,
// and a minority may be down. All nodes are asked at once, and an answer comes as soon as a majority decides it.
//
// # What a node must not do
//
// Everything rests on this: a node that granted a claim does not grant another before the first has left or run out. A
// node that forgets, by a restart without its data or by eviction, can make two majorities out of one. So a node that is
// a [Member] is asked who it is when it is opened, on each new connection and every [Options.CheckEvery]; one that was
// restarted and may have forgotten does not vote until the longest lease, [Options.MaxTTL], is over, nor does one in whose
// place there is another server, nor one whose clock was moved, and no server has two votes.
//
// # Tickets
//
// Members agree on tickets that rise. Each gives a claim a ticket above all that it knows of, and the claim's is the
// highest of its majority, T. Before it is used, each node of a majority has confirmed that the claim stands there with
// T, and that all later tickets are higher. Any two majorities have a node in common, and there the later claim got its
// ticket after the earlier one was confirmed. Clients propose a ticket with their request, slightly ahead of all nodes'
// clocks, so that nodes mostly answer with the same T at once, which is the confirmation as well.
//
// # Changes
//
// A claim that holds can get another record, where all nodes are members: with a version, so that it is known which of two
// records is the later one (record.go). A claim that another process entered is taken up by its ticket (resume.go).
//
// # How it is made
//
// What decides is pure: a majority is a value, into which votes go, with what is known here of the claim, and out of which comes
// what becomes of the claim. TestDecisions holds it against all that three nodes may answer, and TestWalk walks all that can
// happen to two claims. The calls are methods of [Driver], and sendLocked is the one place that sends what changes a claim on a
// node:
//
//	          ┌─────────────────────────────────────────────────────────┐
//	          │                                    votes, as they come  │
//	          ▼                                                         │
//	majority: is it settled? does it hold, and ──► a question ──► rounds: each node, after its
//	with which ticket? what is taken out?          of a call        earlier requests about the claim
//
// Past the rounds go only requests that change nothing: an Await, a look whether one node is free, and a member's report.
//
// At its client a claim is in one of these states, or in none. What is in the table of claims holds: holdLocked puts it there, and
// releaseLocked takes it away:
//
//	 Enter   ┌──────────┐ most nodes grant it, and know its ticket: won ┌─────────┐ Leave
//	────────►│ entering ├──────────────────────────────────────────────►│ holding ├──────► left
//	     ┌──►└─────┬────┘                                               └──▲───┬──┘
//	     │         │ others are in the way: missedOut, late                │   │ most lack it:
//	     │   ┌─────▼────┐                                                  │   │ renewAll, repair
//	     └───┤ waiting  │                                                  │   ▼
//	   Await └──────────┘  Renew of a claim that     ┌──────────┐ finish   │  gone
//	                       another process entered   │          ├──────────┘   ▲
//	                      ──────────────────────────►│ resuming │              │
//	                                                 │          ├──────────────┘
//	                                                 └──────────┘ most lack it, or it leaves
//
// A claim that enters and gets no majority is taken out of the nodes again, before it waits or fails. Where it is not known what
// became of a request that could undo a later attempt, the claim has another id from then on (ids.go). A claim that holds is
// given to the nodes that lack it (repair.go).
//
// The parts are the majority; the nodes, with who they are and whether they vote; the rounds, and the workers that run them; the
// claims that hold; the ids that were drawn; the leads and the contention, which decide when requests are sent, and nothing
// that is relied on. The claims, the rounds and the workers have one mutex, since a claim takes its places in the nodes' queues
// at the moment at which it changes; a method that ends in Locked is for who has it.
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
	Timeout    time.Duration // of a node for an answer; 0: a quarter of the lease, for a Leave of MaxTTL, from 50 ms to 2 s
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

// fewest is how many nodes there must be: one that is down must leave a majority.
const fewest = 3

// waitingTicket is the ticket of a claim that waits: nothing stands on the nodes for it. Real tickets are larger.
const waitingTicket = 1

// A Driver keeps locks on a majority of its nodes. Its methods may be called at once.
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
	mu         sync.Mutex // of the claims, the rounds and the workers: a claim takes its places in the nodes' queues as it changes
}

// New makes a store of an odd number of nodes, at least three. It returns when they are connected, or as many as are a
// majority and the rest has failed; those are tried again later. The store owns the nodes, also when it fails.
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
	d.rounds = &rounds{nodes: d.nodes.list, need: d.rule.need, workers: d.workers, mu: &d.mu, queues: map[nodeQueue]chan struct{}{}}
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

// timeout is how long the nodes may take to answer for a claim.
func (d *Driver) timeout(ttl time.Duration) time.Duration {
	if d.o.Timeout > 0 {
		return d.o.Timeout
	}
	return min(max(ttl/4, 50*time.Millisecond), 2*time.Second)
}

// partingWithin bounds how long Close waits for claims to leave.
const partingWithin = time.Second

// Close ends every call, and closes the nodes. Claims that are leaving have a moment to do so.
func (d *Driver) Close() error {
	d.workers.end()
	var errs []error
	for _, n := range d.nodes.list {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}
