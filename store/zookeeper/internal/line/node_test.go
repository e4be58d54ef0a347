package line

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A znodeWorld is a claim whose node is asked for and then replaced, the server's node, and what two tasks have seen of it
// and not noted yet. Requests get lost, and so do answers.
type znodeWorld struct {
	lc     LocalClaim
	node   string // the server's
	weight int64  // of it
	fate   string // of the last request: "" while the server may still carry it out
	seen   [2]struct {
		of, by *wire.Call // the request, and the call that shows its outcome; nil means that no node was found
	}
	way []string
}

const znodePermits = 3

func znodeName(weight int64) string {
	return znode.Mutex.Stem(&driver.Claim{ID: "id", Weight: weight, Capacity: znodePermits}) + "0000000001"
}

// asked returns the weight that the last request asked for.
func (w *znodeWorld) asked() int64 {
	if w.lc.node.replacing() {
		return w.lc.node.weight - 1
	}
	return w.lc.node.weight
}

func (w *znodeWorld) stat() wire.Stat { return wire.Stat{Czxid: 100 - w.weight, Ctime: 200 - w.weight} }

// steps returns the worlds that can come next.
func (w *znodeWorld) steps() (next []znodeWorld) {
	then := func(what string, change func(w *znodeWorld)) {
		now := *w
		now.way = slices.Concat(w.way, []string{what})
		change(&now)
		next = append(next, now)
	}
	under := w.lc.asks.create
	if under != nil && w.fate == "" {
		then("the request is refused", func(w *znodeWorld) { w.fate = "refused" })
		if w.lc.node.was == w.node {
			then("the request is carried out", func(w *znodeWorld) {
				w.weight, w.fate = w.asked(), "done"
				w.node = znodeName(w.weight)
			})
		}
	}
	for i := range w.seen {
		if of, by := w.seen[i].of, w.seen[i].by; of != nil {
			then(fmt.Sprint(i, " notes what it saw"), func(w *znodeWorld) {
				w.lc.settledLocked(of, by)
				w.seen[i].of, w.seen[i].by = nil, nil
			})
			continue
		}
		if under == nil {
			continue
		}
		if w.fate != "" {
			then(fmt.Sprint(i, " sees the answer"), func(w *znodeWorld) {
				by := &wire.Call{Path: "/n/" + w.node, Stat: w.stat()}
				if w.fate == "refused" {
					by = &wire.Call{Err: wire.BadVersion}
				}
				w.seen[i].of, w.seen[i].by = under, by
			})
		}
		then(fmt.Sprint(i, " looks, and a quorum agrees"), func(w *znodeWorld) {
			if w.fate == "" {
				w.fate = "refused" // the server will not carry it out any more
			}
			w.seen[i].of = under
			if w.node != "" {
				w.seen[i].by = &wire.Call{Path: "/n/" + w.node, Stat: w.stat()}
			}
		})
	}
	if w.lc.node.known() && w.lc.node.weight > 1 && under == nil {
		then("another node is asked for", func(w *znodeWorld) {
			w.lc.replaceLocked(&wire.Call{})
			w.fate = ""
		})
	}
	return next
}

// key is different for worlds that can go on differently.
func (w *znodeWorld) key() string {
	text := fmt.Sprint(w.lc.node, w.node, w.weight, w.fate)
	for _, seen := range w.seen {
		text += fmt.Sprint(" ", seen.of != nil, seen.of == w.lc.asks.create)
		if seen.by != nil {
			text += fmt.Sprint(seen.by.Path, seen.by.Err)
		}
	}
	return text
}

// wrong returns what the claim wrongly believes, or "".
func (w *znodeWorld) wrong() string {
	n := &w.lc.node
	switch {
	case n.asked != (w.lc.asks.create != nil):
		return "it has a request without an unknown outcome, or the reverse"
	case n.known() && (n.name != w.node || n.weight != w.weight || n.czxid != w.stat().Czxid):
		return fmt.Sprintf("it has %+v", *n)
	case !n.known() && !n.asked && w.node != "":
		return "it has no node"
	case n.known() && n.first != znode.First{Ticket: 100 - znodePermits, Since: 200 - znodePermits}:
		return fmt.Sprintf("its first node is %+v", n.first)
	}
	return ""
}

// Whatever is lost, and whoever looks: a claim never believes in a node, weight or ticket that is not its own.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := &driver.Claim{ID: "id", Weight: znodePermits, Capacity: znodePermits}
	worlds := []znodeWorld{{lc: *newLocalClaim(c, &Folder{dir: "/n"}, &wire.Call{})}}
	been, ends := map[string]bool{}, map[string]bool{}
	for len(worlds) > 0 {
		w := worlds[0]
		worlds = worlds[1:]
		if been[w.key()] {
			continue
		}
		been[w.key()] = true
		if wrong := w.wrong(); wrong != "" {
			t.Fatalf("the server has %q of weight %d; %s, after %q", w.node, w.weight, wrong, w.way)
		}
		switch n := &w.lc.node; {
		case n.known():
			ends[fmt.Sprint("weight ", n.weight)] = true
		case !n.asked:
			ends["none"] = true
		}
		worlds = append(worlds, w.steps()...)
	}
	if len(ends) != znodePermits+1 || len(been) < 100 {
		t.Errorf("in %d states the claim's node came to be %v; want each weight, and none", len(been), ends)
	}
	t.Logf("%d states", len(been))
}
