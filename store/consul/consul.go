// Package consul keeps locks in Consul: the claims of a name are the keys
//
//	<prefix><name>/<claim id>
//
// in the order of their create indexes. A session of its own locks each key; this session is the claim's lease. An
// exclusive claim also holds the key <prefix><name>/.lock. Both consul lock and api.Lock use this key, so they
// and stile exclude each other on a name.
//
// Entering a free lock is one transaction, and so is leaving: a session that a claim left cleanly serves the next claim. A
// waiting claim has one blocking query open, usually on the claim before it, so a hand-over wakes one client.
// A claim's create index is its ticket. Importing the package registers the schemes consul and consuls.
//
// A claim has one state. Only the function becomeLocked moves it:
//
//	 its key is                others stand
//	 asked for   ┌────────┐    ahead of it  ┌─────────┐  that has changed ┌────────┐
//	────────────►│ asking ├────────────────►│ waiting │◄─────────────────►│ called │
//	             └───┬────┘                 └──┬───▲──┘  not its turn yet └───┬────┘
//	                 │     it fits,        ┌───▼───┴─┐                        │
//	                 └────────────────────►│ holding │◄───────────────────────┘
//	                       and has the key └─────────┘
//
//	 from each of these
//	     │ an answer was lost    ┌────────┐ it is seen in the queue
//	     └──────────────────────►│        ├─────────────────────────► waiting, holding
//	 another client entered it   │ unsure │
//	────────────────────────────►│        │
//	                             └────────┘
//	 from each of all five
//	     │ by its own request, or since it was not let in  ┌──────┐
//	     ├────────────────────────────────────────────────►│ left │  its session serves the next claim
//	     │                                                 └──────┘
//	     │ in another way, by the store's word             ┌──────┐
//	     └────────────────────────────────────────────────►│ lost │  its session is ended
//	                                                       └──────┘
//
// A claim that holds waits again if a later read of the queue shows that it does not hold, for example because a client of
// another kind has taken the lock's key.
//
// A request whose answer was lost may arrive at any later time. So if a claim was ever unsure, its session serves no other
// claim, also if this claim left. The function becomeLocked sees to this rule, and change is the one way to become unsure.
//
// A claim enters by two goals, joins and stands. The first asks for its key, and the second says where it stands: it takes
// the lock's key in its turn, and gives it back if the claim took it too early. The other goals are leaves, keeps and
// amends. A goal only decides, and pursue is the one place that sends the transactions of a call about a claim:
//
//	           ┌────────────────────────────────────────────────┐
//	           │ the queue as it is then, or what was in the way│
//	           ▼                                                │
//	queue ──► goal ──► move ──► pursue: one transaction ────────┤
//	           │                                                │ the answer is lost
//	           ▼ no move is left                                ▼
//	          end, a value: it holds, waits, has left, …       unsure, and the call fails
//
// Since goals only decide, TestGoals walks all that can happen to a few claims, with the goals that ship. A claim's keys go
// in three other ways too: its session ends, which its client may ask for; an operator removes it, by Break; and deleteDead
// removes a key whose session is over.
//
// The parts are the agent, which sends requests and knows nothing of claims (call.go, txn.go); the sessions (session.go) and
// the table of claims (claims.go), with one mutex for both; the goals (goal.go) with the operations of their moves (ops.go);
// and the calls, which are methods of Driver. Enter of a new claim is in enter.go, and Enter of a claim that entered before,
// here or in another client, in again.go. The agent notes the newest index that it has seen. If Consul then gives a claim a
// lower index, the store was replaced, and the driver refuses its claims (replaced.go).
//
// A token needs these rights, with the prefix in place of stile/:
//
//	key_prefix "stile/" { policy = "write" }
//	session_prefix ""   { policy = "write" }
//
// and, for the limit of connections and the notes of the traits, agent_prefix "" { policy = "read" }.
package consul

import (
	"context"
	"net/http"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/work"
)

// DefaultPrefix is the beginning of all keys, unless Options name another prefix.
const DefaultPrefix = "stile/"

// Options say how a [Driver] reaches Consul. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Client     *http.Client // nil means one of the driver's own, without TLS
	URL        string       // of the agent; "" means http://127.0.0.1:8500
	Token      string       // of the ACL system
	Datacenter string       // "" means the agent's own
	Namespace  string       // of Consul Enterprise
	Prefix     string       // the beginning of all keys
	Bare       bool         // keys begin with the name, and Prefix is not used
}

// A Driver keeps locks in Consul. Its methods may be called at once.
type Driver struct {
	agent    *agent
	sessions *sessions
	claims   *claims
	prefix   string
	queries  *queries

	life     *work.Life
	ctx      context.Context // lasts as long as the driver
	promised promise.Promise

	mu         sync.Mutex // guards the fields below, the claims and the sessions
	endangered func(ids ...string)
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
	driver.Identifier
} = (*Driver)(nil)

// New returns a driver that uses the caller's client, and asks the servers for what they can promise. Closing the driver
// does not close the client.
func New(ctx context.Context, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := newDriver(o)
	if err != nil {
		return nil, driver.Refused(err)
	}
	if err := d.probe(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Traits returns the servers' promises. The driver asks for them again from time to time, since the servers behind the agent
// may change.
func (d *Driver) Traits() driver.Traits { return d.promised.Traits() }

// Alert sets a function that gets the ids of claims to be renewed at once.
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endangered = endangered
}

// Close ends every call. It ends unused sessions, if Consul answers soon.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.life.End()
	unused := d.sessions.drainLocked()
	for _, lc := range d.claims.known {
		lc.unwatchLocked()
	}
	d.mu.Unlock()
	d.life.Wait()
	d.sessions.endAll(unused)
	if d.agent.owned {
		d.agent.client.CloseIdleConnections()
	}
	return nil
}
