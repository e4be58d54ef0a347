package line

import (
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A goal is the part of a call that decides, and does nothing else. By what the call knows of a claim's node it returns the
// next move. leaves removes the node. stays marks it as kept if its claim holds. departs tries to keep the node, and removes it
// if its claim waits. amends changes the record or the weight of the claim.
//
// A call changes a node only in the version that it has read: if another client has changed the node, most likely to keep
// it, the call reads it again. If the claim is amended, another node may replace the node, and the call looks for the new
// name.
//
//	         it has another name, or none
//	    ┌─────────────────┬───────────────────────────┐
//	┌───▼──┐ there    ┌───┴──┐ it may be changed  ┌───┴──────────────┐ done
//	│ seek ├─────────►│ read ├───────────────────►│ write, or delete ├──────►
//	└───┬──┘          └┬───▲─┘                    └───┬──────────────┘
//	    ▼ not there    ▼   └──────────────────────────┘
//	  absent      kept, unheld,   another client changed it
//	              or refused
type goal func(v view) move

// A view is what a call knows of a claim's node.
type view struct {
	name    string     // "" while unknown
	missing bool       // the claim has no node
	gone    bool       // no node has the name, so it has another one or none
	known   knowledge  // which of the fields below are known
	version int32      // of the data; -1 means any
	data    znode.Data // what the node contains
	weight  int64      // of the claim; 0 if it is another client's
	holds   bool       // the claim holds: by the queue if that was read, otherwise by the local claim

	done bool  // this call has made its change
	why  error // the server has refused it, or a read
}

// A knowledge is how much is known of a node that has a name.
type knowledge int

const (
	knownNot     knowledge = iota
	knownVersion           // the version, from an earlier call
	knownNode              // the version and the data, as of now
	knownQueue             // also whether the claim holds
)

// A move is the next step of a call.
type move struct {
	verb   verb
	enough knowledge  // of moveRead
	data   znode.Data // of moveWrite: what the node contains then
	weight int64      // of moveWrite: of the claim then
	why    error      // of endRefused
}

// A verb says what a move does: a request, or the end.
type verb int

const (
	goesOn     verb = iota // none
	moveSeek               // look for the node's name
	moveRead               // read the node, proven
	moveWrite              // write the data, and the weight, if the node has the version that is known
	moveDelete             // delete the node, if it has the version that is known
	endDone                // this call has made the change, or there is nothing to change
	endAbsent              // it is not there
	endKept                // another client keeps it
	endUnheld              // its claim does not hold, so it cannot be kept
	endRefused             // the server refused a move, or the claim may not be amended
)

// finds returns the move that finds and reads the node, or the end if there is no claim to change. It returns goesOn if the
// view is good enough.
func (v view) finds(enough knowledge) move {
	switch {
	case v.why != nil:
		return move{verb: endRefused, why: v.why}
	case v.done:
		return move{verb: endDone}
	case v.missing:
		return move{verb: endAbsent}
	case v.name == "" || v.gone:
		return move{verb: moveSeek}
	case v.known < enough:
		return move{verb: moveRead, enough: enough}
	case v.data.Kept > 0:
		return move{verb: endKept}
	}
	return move{}
}

// leaves removes a node. It is enough to know the version of a node of this client, since others change it rarely.
func leaves(v view) move {
	if m := v.finds(knownVersion); m.verb != goesOn {
		return m
	}
	return move{verb: moveDelete}
}

// stays marks a node as kept for a while if its claim holds.
func stays(length time.Duration) goal {
	return func(v view) move {
		m := v.finds(knownQueue)
		switch {
		case m.verb != goesOn:
			return m
		case !v.holds:
			return move{verb: endUnheld}
		}
		m = move{verb: moveWrite, data: v.data, weight: v.weight}
		m.data.Stile, m.data.Kept = znode.DataVersion, length
		return m
	}
}

// departs marks a node as kept if its claim holds, and otherwise, or without keep, removes it.
func departs(keep time.Duration) goal {
	return func(v view) move {
		if keep > 0 {
			if m := stays(keep)(v); m.verb != endUnheld {
				return m
			}
		}
		return leaves(v)
	}
}

// amends changes the record or the weight of a claim that holds.
func amends(c *driver.Claim) goal {
	return func(v view) move {
		if m := v.finds(knownNode); m.verb != goesOn {
			return m
		}
		weight, record, why := c.Amended(v.weight, v.data.Record, v.holds)
		switch {
		case why != nil:
			return move{verb: endRefused, why: why}
		case weight == v.weight && record == v.data.Record:
			return move{verb: endDone}
		}
		m := move{verb: moveWrite, data: v.data, weight: weight}
		if m.data.Stile != znode.DataVersion {
			m.data = znode.NewData(c)
		}
		m.data.Write(record)
		return m
	}
}

// wasChanged returns the view after the server's answer to a change. why is what a refusal means that is neither of these:
// no node has the name, or another client has changed the node.
func (v view) wasChanged(m move, err, why error) view {
	switch {
	case err == nil:
		v.done, v.data = true, m.data
	case errors.Is(err, wire.NoNode):
		v.gone = true
	case errors.Is(err, wire.BadVersion):
		v.known = knownNot
	default:
		v.why = why
	}
	return v
}
