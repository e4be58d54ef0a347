package line

import (
	"strings"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A node is what the client knows of a claim's node. It is pure: its callers ask the server, and pass the outcome in.
//
//	                 ┌───────┐ found        ┌───────┐ replace   ┌───────────┐
//	a claim enters ─►│ asked │─────────────►│ known │──────────►│ replacing │
//	                 └───┬───┘              └───▲───┘           └─────┬─────┘
//	                     │ refused, or          │ refused, or one of  │
//	                 ┌───▼───┐ it is not there  │ the two is found    │
//	                 │ none  │                  └─────────────────────┤
//	                 └───▲───┘           neither of the two is there  │
//	                     └────────────────────────────────────────────┘
//
// After a request of unknown outcome the node stays asked, or replacing, until a caller has looked for it.
type node struct {
	asked   bool   // a request for it was made, and has no known outcome yet
	name    string // "" while unknown
	was     string // its former name, while another node may have replaced it
	weight  int64  // of the claim
	czxid   int64  // the transaction that made it
	version int32  // of its data

	first znode.First // of the claim's nodes; set once, and read without mu after that
}

// known reports whether the claim has a node whose name is known.
func (n *node) known() bool { return n.name != "" }

// replacing reports whether the claim has one of two nodes, and it is unknown which.
func (n *node) replacing() bool { return n.was != "" }

// replace notes a request that replaces the known node by another one.
func (n *node) replace() { n.asked, n.was, n.name = true, n.name, "" }

// found notes the node that a request made, or that a caller found. If it replaced another node, its name shows the new
// weight.
func (n *node) found(l znode.Layout, path string, stat *wire.Stat) {
	n.asked, n.name = false, path[strings.LastIndexByte(path, '/')+1:]
	n.czxid, n.version = stat.Czxid, stat.Version
	if n.first.Ticket == 0 {
		n.first = znode.First{Ticket: stat.Czxid, Since: stat.Ctime}
	}
	if named, ok := l.Parse(n.name); ok && n.replacing() {
		n.weight = named.Weight
	}
	n.was = ""
}

// refused notes that the request for the node was not carried out, and never will be: the claim keeps its former node, if
// any.
func (n *node) refused() { n.asked, n.name, n.was = false, n.was, "" }

// absent notes that neither the node nor the one that it was to replace exists, and that neither will come.
func (n *node) absent() { n.asked = false }
