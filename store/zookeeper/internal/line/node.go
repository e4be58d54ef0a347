package line

import (
	"strings"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A node is what is known of a claim's node. It is pure: others ask the server, and tell it what came of that.
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
// A request of unknown outcome leaves a node asked, or replacing, until somebody who may know it has looked for it.
type node struct {
	asked   bool   // a request for it was made, and its outcome is not known yet
	name    string // "" while unknown
	was     string // its former name, while another node may have replaced it
	weight  int64  // of the claim
	czxid   int64  // the transaction that made it
	ticket  int64  // the transaction that made the first of the claim's nodes
	version int32  // of its data
}

// known reports whether the claim has a node whose name is known.
func (n *node) known() bool { return n.name != "" }

// replacing reports whether it is not known which of two nodes the claim has.
func (n *node) replacing() bool { return n.was != "" }

// replace has another node be asked for, in the place of the one that is known.
func (n *node) replace() { n.asked, n.was, n.name = true, n.name, "" }

// found notes the node that a request made, or that somebody found. One that came in the place of another has the weight that
// its name says.
func (n *node) found(l znode.Layout, path string, stat *wire.Stat) {
	n.asked, n.name = false, path[strings.LastIndexByte(path, '/')+1:]
	n.czxid, n.version = stat.Czxid, stat.Version
	if n.ticket == 0 {
		n.ticket = n.czxid
	}
	if named, ok := l.Parse(n.name); ok && n.replacing() {
		n.weight = named.Weight
	}
	n.was = ""
}

// refused notes that the request for the node was not carried out, and never will be: the claim has the node that it had, if any.
func (n *node) refused() { n.asked, n.name, n.was = false, n.was, "" }

// absent notes that the node is not there, and never will be; nor is the one that it was to replace.
func (n *node) absent() { n.asked = false }
