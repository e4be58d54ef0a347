package explore

import (
	"cmp"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Fault is a kind of fault that a world may have.
type Fault uint

// The kinds of faults.
const (
	Slow   Fault = 1 << iota // a request is applied, and answered late or not before its limit
	Lost                     // a request is lost before it is applied
	Dumb                     // a request is applied, and its answer is lost
	Late                     // a request is given up, and applied at any later time, or never
	Twice                    // a request is applied again at any later time
	Unsent                   // a request does not leave
	Reject                   // the store refuses a request
	Early                    // an Await returns early
	Pause                    // a client is paused for a while
	Sleep                    // its machine sleeps too, and reports it afterwards
	Drift                    // a claim is gone with its session, as a request finds out
	Break                    // somebody removes a claim from the store
	Mute                     // the store no longer answers anything
	Lack                     // the store renews a claim, but lacks a required trait
	Forget                   // the store forgets all claims
)

// The faults of requests, and all faults.
const (
	Losses   = Lost | Dumb | Unsent | Early
	Requests = Slow | Lost | Dumb | Late | Twice
	All      = Break<<1 - 1 // except silence
)

// An Act is something that goroutines may do in a world.
type Act uint

// The acts. A goroutine that holds can always release.
const (
	Lock Act = 1 << iota
	Try
	GiveUp
	Share
	Detach // and attach
	Alarm
	Close
	Cross // release a hold while it is being detached
	Amend // a writer becomes a reader
	Pin   // a hold becomes the last turn of its claim
)

// A Config is a world.
type Config struct {
	Name       string
	Clients    int
	Goroutines int // of each client
	Wants      int // acquisitions of each goroutine; 0 means without end
	Faults     int // of each path
	Kinds      Fault
	Acts       Act
	Permits    bool  // capacity 2, each of weight 1
	Readers    []int // of each client, these goroutines are readers
	Linger     time.Duration
	Turn       time.Duration // 0 means 20 ms
	MaxHold    time.Duration
	Keep       time.Duration
	Nap        time.Duration // the longest pause; 0 means no end
	Unordered  bool
	Strays     int  // 0 means 2
	Split      bool // a request is applied and answered in two steps
	Silent     bool // the store never answers anything
	Says       bool // the store says that somebody removed a claim by hand
	Tells      bool // the store reports the rest of the holder's lease
	Reclaim    bool // each client is a run of the same owner, and reclaims
	Depth      int  // where the walk stops; 0 means at its fixed point

	skip engine.Field // left out of the encoding, to see whether it matters
}

const ms = time.Millisecond

// The times of the engines. Without faults all events fall on multiples of 20 ms, and with faults most fall on multiples of
// 10 ms, so that few different times occur.
const (
	ttl      = 60 * ms
	patience = 120 * ms
	margin   = 5 * ms
	grain    = 20 * ms
)

func (c *Config) turn() time.Duration { return cmp.Or(c.Turn, 20*ms) }

func (c *Config) engine() *protocol.Config {
	return &protocol.Config{
		Turn: c.turn(), Patience: patience, Strays: int32(cmp.Or(c.Strays, 2)), Ordered: !c.Unordered, Grain: grain,
		Jitter:  func(most time.Duration) time.Duration { return most.Truncate(5 * ms) },
		Trusted: func(sent engine.Time, lease time.Duration) engine.Time { return sent + lease - margin },
	}
}

// terms returns what each goroutine wants.
func (c *Config) terms() (all []protocol.Terms) {
	for g := range c.Goroutines {
		t := protocol.Terms{Weight: driver.All, Capacity: driver.All, TTL: ttl}
		if c.Reclaim {
			t.Owner, t.Reclaim = "owner", true
		}
		if c.Permits {
			t.Weight, t.Capacity = 1, 2
		}
		for _, r := range c.Readers {
			if r == g {
				t.Weight = 1
			}
		}
		all = append(all, t)
	}
	return all
}

const plain = Lock | Try | GiveUp

// Small returns the worlds that every test walks.
func Small() []Config {
	return []Config{
		{Name: "1x1", Clients: 1, Goroutines: 1, Acts: plain},
		{Name: "1x2", Clients: 1, Goroutines: 2, Acts: plain},
		{Name: "1x2, silent", Clients: 1, Goroutines: 2, Wants: 1, Acts: plain | Close, Silent: true},
		{Name: "linger, 1x2", Clients: 1, Goroutines: 2, Linger: 20 * ms, Acts: plain | Close},
		{Name: "max hold, 1x2", Clients: 1, Goroutines: 2, Wants: 2, MaxHold: 40 * ms, Acts: plain | Close},
		{Name: "max hold, two readers", Clients: 1, Goroutines: 2, Readers: []int{0, 1}, Wants: 2, MaxHold: 40 * ms,
			Acts: plain},
		{Name: "linger, reader and writer, 1x2", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 2,
			Linger: 20 * ms, Acts: Lock | Try, Strays: 1},
		{Name: "reader and writer, 1x2", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 2, Acts: plain, Strays: 1},
		{Name: "permits, 1x3", Clients: 1, Goroutines: 3, Permits: true, Wants: 1, Acts: plain},
		{Name: "2x1", Clients: 2, Goroutines: 1, Acts: plain, Strays: 1},
		{Name: "1x2, one loss", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Losses, Acts: plain | Close},
		{Name: "2x1, one loss", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Losses, Acts: plain | Close},
		{Name: "1x2, one loss, long turns", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Lost, Acts: Lock,
			Turn: 40 * ms},
		{Name: "1x2, pause or removal", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Pause | Break | Reject,
			Acts: Lock},
		{Name: "2x1, late", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Requests, Acts: Lock | Try},
		{Name: "1x2, late", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Requests | Unsent | Reject | Early,
			Acts: plain | Close},
		{Name: "1x2, falls silent", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Mute, Acts: plain | Close},
		{Name: "1x1, two faults", Clients: 1, Goroutines: 1, Wants: 1, Faults: 2,
			Kinds: Requests | Unsent | Reject | Pause, Acts: plain | Close},
		{Name: "reader and writer, 1x2, one fault", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 1, Faults: 1,
			Kinds: Requests | Reject, Acts: Lock | GiveUp | Close},
		{Name: "permits, 1x2, one fault", Clients: 1, Goroutines: 2, Permits: true, Wants: 1, Faults: 1,
			Kinds: Requests | Reject, Acts: Lock | Close},
		{Name: "re-entering, 1x2, one fault", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Losses | Break,
			Acts: Lock | Share},
		{Name: "detach and attach, 2x1, one fault", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1,
			Kinds: Slow | Lost | Reject | Break, Acts: Lock | Detach | Close, MaxHold: 40 * ms},
		{Name: "detach and attach, 1x1", Clients: 1, Goroutines: 1, Wants: 2, Acts: Lock | Detach | Close | Alarm},
		{Name: "detach and attach, 1x1, two faults", Clients: 1, Goroutines: 1, Wants: 2, Faults: 2,
			Kinds: Slow | Unsent | Reject | Break, Acts: Lock | Detach | Share, MaxHold: 40 * ms},
		{Name: "detach, 1x1, two faults", Clients: 1, Goroutines: 1, Wants: 1, Faults: 2,
			Kinds: Late | Unsent | Reject, Acts: Lock | Detach, MaxHold: 40 * ms},
		{Name: "detach and attach, 1x3", Clients: 1, Goroutines: 3, Wants: 1, Acts: plain | Detach},
		{Name: "detach and attach, 1x3, one fault", Clients: 1, Goroutines: 3, Wants: 1, Faults: 1, Kinds: Lost,
			Acts: Lock | GiveUp | Detach, MaxHold: 40 * ms},
		{Name: "attach beside one whose session is over, 1x3", Clients: 1, Goroutines: 3, Wants: 1, Faults: 1, Kinds: Drift,
			Acts: Lock | Detach},
		{Name: "alarm, 1x1", Clients: 1, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Late, Acts: Lock | GiveUp | Alarm,
			MaxHold: 40 * ms},
		{Name: "alarm, 1x2", Clients: 1, Goroutines: 2, Wants: 1, Acts: Lock | GiveUp | Alarm},
		{Name: "keep, 2x1", Clients: 2, Goroutines: 1, Keep: 20 * ms, Acts: Lock | GiveUp, Strays: 1},
		{Name: "session over, 1x2", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Drift | Lack, Acts: plain | Close},
		{Name: "session over, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Drift | Lost,
			Acts: Lock | GiveUp},
		{Name: "asleep, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Sleep, Acts: Lock | Close},
		{Name: "detach and release at once, 1x2", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1,
			Kinds: Slow | Lost | Unsent | Reject | Drift, Acts: Lock | Detach | Cross},
		{Name: "falls silent, own claims in the way, 1x2", Clients: 1, Goroutines: 2, Wants: 2, Faults: 1,
			Kinds: Mute, Acts: Lock | GiveUp, Strays: 1},
		{Name: "falls silent, reader and writer, 1x2", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 1,
			Faults: 1, Kinds: Mute, Acts: plain | Close, Linger: 20 * ms},
		{Name: "downgrade, 1x2, one fault", Clients: 1, Goroutines: 2, Readers: []int{1}, Wants: 1, Faults: 1,
			Kinds: Requests | Unsent | Reject | Drift | Break, Acts: Lock | Amend | Close},
		{Name: "downgrade, 1x1, two faults", Clients: 1, Goroutines: 1, Wants: 1, Faults: 2,
			Kinds: Requests | Unsent | Reject, Acts: Lock | Amend | Share | Alarm, MaxHold: 40 * ms},
		{Name: "downgrade, 2x1", Clients: 2, Goroutines: 1, Acts: Lock | Try | Amend | Detach, Strays: 1, Wants: 1},
		{Name: "pin, 1x2, one fault", Clients: 1, Goroutines: 2, Wants: 2, Faults: 1, Kinds: Lost | Late | Reject | Drift,
			Acts: Lock | Pin | Share | Close, MaxHold: 40 * ms},
		{Name: "pin, two readers", Clients: 1, Goroutines: 2, Readers: []int{0, 1}, Wants: 2, Linger: 20 * ms,
			Acts: plain | Pin},
		{Name: "pin and detach, 2x1", Clients: 2, Goroutines: 1, Wants: 2, Acts: Lock | Pin | Detach},
		{Name: "broken, and the store says so, 1x2", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Break, Acts: plain | Close,
			Says: true},
		{Name: "broken, and the store says so, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Break | Lost,
			Acts: Lock | GiveUp, Says: true},
		{Name: "broken, and nobody says so, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Break, Acts: plain | Close},
		{Name: "forgotten, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Forget, Acts: plain | Close},
		{Name: "forgotten, 2x1, two faults", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Forget | Lost | Dumb | Late,
			Acts: Lock},
		{Name: "forgotten, and the lease was told, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Forget, Acts: plain,
			Tells: true},
		{Name: "forgotten, 1x2", Clients: 1, Goroutines: 2, Wants: 2, Faults: 1, Kinds: Forget, Acts: plain},
		{Name: "forgotten, and silent, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Forget | Mute, Acts: Lock | Close},
		{Name: "forgotten, no queue, 2x1", Clients: 2, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Forget, Acts: plain, Unordered: true},
		{Name: "two runs of one owner, 2x1", Clients: 2, Goroutines: 1, Wants: 2, Faults: 1, Kinds: Forget | Drift | Break,
			Acts: Lock | GiveUp, Reclaim: true},
		{Name: "no queue, 1x2, one fault", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: All,
			Acts: plain | Close, Unordered: true},
		{Name: "no queue, 2x1", Clients: 2, Goroutines: 1, Acts: plain, Strays: 1, Unordered: true},
	}
}

// Full returns the worlds that are walked to their fixed points before a change lands.
func Full() []Config {
	return []Config{
		{Name: "2x2", Clients: 2, Goroutines: 2, Acts: plain, Strays: 1},
		{Name: "2x2, one fault of a request", Clients: 2, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Requests,
			Acts: plain, Strays: 1},
		{Name: "2x2, one pause", Clients: 2, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Pause, Acts: plain, Strays: 1},
		{Name: "2x1, two faults", Clients: 2, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Requests | Pause,
			Acts: Lock | GiveUp | Close},
		{Name: "1x2, two faults", Clients: 1, Goroutines: 2, Wants: 1, Faults: 2, Kinds: Requests | Pause,
			Acts: Lock | GiveUp | Close},
		{Name: "3x1, one fault", Clients: 3, Goroutines: 1, Wants: 1, Faults: 1, Kinds: Requests | Pause, Acts: plain},
		{Name: "reader and writer, 2x2", Clients: 2, Goroutines: 2, Readers: []int{0}, Acts: Lock | Try, Strays: 1},
		{Name: "permits, 2x2", Clients: 2, Goroutines: 2, Permits: true, Acts: plain, Strays: 1},
		{Name: "linger, 2x1", Clients: 2, Goroutines: 1, Linger: 20 * ms, Acts: plain, Strays: 1},
		{Name: "max hold, 2x1, one fault", Clients: 2, Goroutines: 1, Wants: 1, MaxHold: 40 * ms, Faults: 1,
			Kinds: Requests, Acts: Lock | Close},
		{Name: "re-entering, 1x2, one fault", Clients: 1, Goroutines: 2, Wants: 1, Faults: 1, Kinds: Requests,
			Acts: plain | Share},
	}
}

// Long returns the worlds that are walked for as long as the caller likes.
func Long() []Config {
	return []Config{
		{Name: "2x2, two faults", Clients: 2, Goroutines: 2, Wants: 1, Faults: 2, Kinds: Requests | Pause, Acts: Lock,
			Strays: 1},
		{Name: "reader and writer, 2x2", Clients: 2, Goroutines: 2, Readers: []int{0}, Acts: plain, Strays: 1},
		{Name: "2x2, two faults, tries", Clients: 2, Goroutines: 2, Wants: 1, Faults: 2, Kinds: Requests | Pause,
			Acts: plain, Strays: 1},
		{Name: "2x2, two strays", Clients: 2, Goroutines: 2, Acts: plain},
		{Name: "2x1, one fault, wants without end", Clients: 2, Goroutines: 1, Faults: 1, Kinds: Requests,
			Acts: plain, Strays: 1},
		{Name: "3x1, two faults", Clients: 3, Goroutines: 1, Wants: 1, Faults: 2, Kinds: Requests, Acts: plain},
		{Name: "3x2", Clients: 3, Goroutines: 2, Wants: 1, Acts: plain},
	}
}
