package explore

import (
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A World is the state of a few clients and their store at one moment.
type World struct {
	conf    *Config
	terms   []protocol.Terms
	now     engine.Time
	clients []client
	store   driver.Queue
	faults  int     // faults that may still come
	shaken  bool    // a fault happened that may cost a lease
	broken  []int64 // tickets of claims that somebody removed, or that Close left to run out
	token   int64   // the highest token that was given
	baton   baton
	robbed  error // a claim that entered again removed a later run's claim
	adrift  bool  // the answer to a request says that its session is over
	lacks   bool  // the answer to a request says that the store lacks a required trait
	mute    bool
	muted   engine.Time // since when the store is mute

	touched uint // a bit for each client that has changed since the world was copied
	parts   [mostClients]part
	hashed  bool // hash is up to date
	hash    Hash

	again bool // its steps were checked already
	table *Table
	trace func(format string, args ...any) // gets a description of each step, unless nil
	enc   *coder
}

// A baton is a claim that was detached.
type baton struct {
	token  int64
	id     uint64
	weight int64
}

type client struct {
	e      *engine.Engine
	common *engine.Common // only of e
	gs     []goroutine
	claims []seat
	reqs   []request
	paused bool
	rouse  engine.Time // when it continues, if it is paused
	asleep bool        // its machine sleeps too
	slept  engine.Time // for how long its machine has slept
	closed engine.Time
	apart  uint64 // how many requests it has sent that are not the engine's
}

// A seat is the shell's knowledge of a claim, by its slot.
type seat struct {
	id     uint64 // in the store; 0 means that the slot is free
	trust  engine.Time
	begun  engine.Time // when its first turn began
	slept  engine.Time // how long the machine had slept at the last confirmation
	weak   bool        // its last renewal failed
	dead   bool        // the store was asked to remove it, or has removed it
	pinned bool        // its hold is its last turn
	again  bool        // it replaced a claim that the store forgot
	before bool        // but it was made before the store forgot all, so it waits for no former holder
}

type state uint8

const (
	idle      state = iota
	waiting         // for a Grant or a Fail
	holding         // believes that it holds, unless over
	releasing       // waits until its release is answered
	parting         // holds, and waits for the renewal after which it detaches
	attaching       // waits for the renewal by which it attaches
)

// A change is the progress of a writer that becomes a reader. It counts as a reader from the moment in which it asks.
type change uint8

const (
	unchanged change = iota
	asked
	changed
	unwilling // the store refused, or others share the hold
)

type goroutine struct {
	state   state
	change  change
	over    bool // its hold was ended
	try     bool
	company bool // others were there while it waited
	stood   bool // its claim has had a place in the store's queue since it began to wait
	shares  int8
	left    int8 // further acquisitions; -1 means without end
	slot    engine.Slot
	since   engine.Time // when it began to wait
	weight  int64
	answer  protocol.Code // what the engine's method returned, until its effects are carried out

	// What the goroutine's handle remembers of the hold.
	claim engine.Slot
	token int64
	until engine.Time // when its MaxHold ends
	fresh bool        // granted in this step
}

// takes returns how much of the capacity a holding goroutine believes to take.
func (x *goroutine) takes() int64 {
	if x.change != unchanged {
		return 1
	}
	return x.weight
}

// A request is a call of the driver on its way to the store or back.
type request struct {
	verb    protocol.Verb
	claim   engine.Slot
	number  uint64
	id      uint64
	ticket  int64
	token   int64 // of the claim to attach
	weight  int64
	try     bool
	sent    engine.Time
	limit   engine.Time
	keep    time.Duration
	amend   bool
	apart   bool // not the engine's request, but goroutine by's
	by      uint8
	live    bool // its answer will be read
	cut     bool
	applied bool
	slow    bool  // only faults and its limit end it
	doubted bool  // the engine got its outcome as unknown
	reply   reply // set once it is applied
}

// A reply is the store's answer, in short.
type reply struct {
	outcome protocol.Outcome
	holds   bool
	ticket  int64
	lease   time.Duration
	retry   time.Duration
	blocker int64
	rest    time.Duration // rest of the blocker's lease
}

func (r *request) answer() *protocol.Reply {
	a := &r.reply
	e := &protocol.Reply{
		Claim: r.claim, Number: r.number, Sent: r.sent, Outcome: a.outcome,
		Place: driver.Place{
			Ticket: a.ticket, Holds: a.holds, TTL: a.lease, Retry: a.retry, Blocker: driver.ClaimInfo{Ticket: a.blocker, Remaining: a.rest},
		},
	}
	if r.verb == protocol.Renew {
		e.TTL, e.Place = a.lease, driver.Place{}
	}
	if a.outcome > protocol.Adrift {
		e.Err = errFault
	}
	return e
}

const start = 10 * time.Second

// New returns a world in its initial state.
func New(conf *Config) *World {
	w := &World{conf: conf, terms: conf.terms(), now: start, faults: conf.Faults, mute: conf.Silent, enc: &coder{}}
	for range conf.Clients {
		common := engine.NewCommon(conf.engine())
		e := engine.New(&common)
		c := client{e: &e, common: &common, closed: engine.Never}
		for g := range conf.Goroutines {
			left := int8(conf.Wants)
			if left == 0 {
				left = -1
			}
			c.gs = append(c.gs, goroutine{left: left, weight: w.terms[g].Weight})
		}
		w.clients = append(w.clients, c)
	}
	return w
}

// CopyFrom makes the world a copy of another, in the memory that it has.
func (w *World) CopyFrom(o *World) {
	w.touched = 1<<mostClients - 1
	w.back(o)
}

// touch notes that a client is about to change.
func (w *World) touch(i int) {
	w.touched |= 1 << i
	w.parts[i].on = 0
}

// back restores the world from the one that it was copied from; only touched clients differ.
func (w *World) back(o *World) {
	clients, entries, broken, touched := w.clients, w.store.Entries, w.broken, w.touched
	again, table, trace, enc := w.again, w.table, w.trace, w.enc
	*w = *o
	w.again, w.table, w.trace, w.enc, w.touched = again, table, trace, enc, 0
	w.broken = append(broken[:0], o.broken...)
	w.store.Entries = append(entries[:0], o.store.Entries...)
	if clients == nil {
		for range o.clients {
			common := &engine.Common{}
			e := engine.New(common)
			clients = append(clients, client{e: &e, common: common})
		}
	}
	w.clients = clients
	for i := range o.clients {
		if touched>>i&1 == 0 {
			continue
		}
		c, from := &clients[i], &o.clients[i]
		e, common, gs, claims, reqs := c.e, c.common, c.gs, c.claims, c.reqs
		*c = *from
		c.e, c.common, c.gs = e, common, append(gs[:0], from.gs...)
		c.claims, c.reqs = append(claims[:0], from.claims...), append(reqs[:0], from.reqs...)
		c.e.CopyFrom(from.e)
	}
}

func (w *World) say(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}
