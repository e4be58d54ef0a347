package line

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A leavingRule decides the moves, and takes the answer to a delete; a planted mistake replaces one of the two.
type leavingRule struct {
	leaves     func(time.Duration, view) move
	wasDeleted func(v view, deleted, changed bool) view
}

var rightRule = leavingRule{leaves, view.wasDeleted}

// A leavingWorld is a node that must go, the call that removes it, and other clients, which change, keep, replace or remove
// the node at any time.
type leavingWorld struct {
	there, kept, holds bool
	version            int32
	name               string

	keep    time.Duration
	spent   bool // the node was kept, and its time is over
	start   view // of the call, and of its repetition
	v       view
	marking bool // the call has seen that the claim holds, and is about to mark the node
	ended   move // 0 until the end

	others, moves, lost int // how many events there were
	by                  string
	wasKept             bool // by another client
	wrong               string
}

const maxOthers = 3

// otherwise returns the worlds after another client did something.
func (w leavingWorld) otherwise() (next []leavingWorld) {
	if w.others == maxOthers || !w.there {
		return nil
	}
	w.others++
	changed, kept, gone, holds := w, w, w, w
	changed.version++
	kept.version++
	kept.kept, kept.wasKept = true, true
	gone.there = false
	holds.holds = true
	next = []leavingWorld{changed, kept, gone, holds}
	if w.v.begins != "" && !w.kept { // its claim is amended
		amended := w
		amended.name, amended.version = w.name+"'", 0
		next = append(next, amended)
	}
	return next
}

// step returns the world after the next request of the call.
func (w leavingWorld) step(rule leavingRule) leavingWorld {
	if w.moves++; w.moves > 5*(maxOthers+3) {
		w.wrong = "there is no end of it"
		return w
	}
	if w.marking {
		w.marking = false
		if !w.sees() {
			w.v = w.v.wasRead(wire.NoNode, 0, 0)
			return w
		}
		w.version++
		w.kept, w.v.marked = true, true
		return w
	}
	switch next := rule.leaves(w.keep, w.v); next {
	case moveSeek:
		name := ""
		if w.there {
			name = w.name
		}
		w.v = w.v.wasSought(name)
	case moveRead:
		var err error
		kept := time.Duration(0)
		if !w.sees() {
			err = wire.NoNode
		} else if w.kept {
			kept = time.Second
		}
		w.v = w.v.wasRead(err, w.version, kept)
	case moveKeep:
		switch {
		case !w.sees():
			w.v = w.v.wasRead(wire.NoNode, 0, 0)
		case w.holds:
			w.marking = true
		default:
			w.v.waits = true
		}
	case moveDelete:
		deleted, changed := w.deletes()
		w.v = rule.wasDeleted(w.v, deleted, changed)
	default:
		w.ends(next)
	}
	return w
}

// sees reports whether the node that the call knows exists.
func (w *leavingWorld) sees() bool { return w.there && w.v.name == w.name }

// deletes returns the server's answer to a delete.
func (w *leavingWorld) deletes() (deleted, changed bool) {
	switch {
	case !w.sees():
		return false, false
	case w.v.version >= 0 && w.v.version != w.version:
		return false, true
	case w.kept && !w.spent:
		w.wrong = "a node went that another client keeps"
	case w.keep > 0 && !w.v.waits:
		w.wrong = "a node went that was to be kept"
	}
	w.there, w.by = false, "us"
	return true, false
}

// ends checks the result of the call.
func (w *leavingWorld) ends(end move) {
	w.ended = end
	switch {
	case end == endDeleted && w.by != "us":
		w.wrong = "it says that it deleted the node, and has not"
	case end == endAbsent && w.there:
		w.wrong = "it says that the node is not there, and it is"
	case end == endKept && !w.wasKept:
		w.wrong = "it says that another client keeps the node, which none did"
	case end == endMarked && (w.keep == 0 || w.there && !w.kept):
		w.wrong = "it says that the node is kept, and it is not"
	}
}

// walkLeaving walks through all states, and returns the first error.
func walkLeaving(rule leavingRule) (states int, ends map[move]bool, wrong string) {
	var todo []leavingWorld
	known, sought := view{name: "a", read: true, there: true}, view{begins: "a"}
	for _, holds := range []bool{false, true} {
		w := leavingWorld{there: true, holds: holds, name: "a"}
		own, other, keeping, spent := w, w, w, w
		own.v, other.v, keeping.v = known, sought, sought
		keeping.keep = time.Second
		spent.kept, spent.spent, spent.v = true, true, view{name: "a", read: true, there: true, version: -1}
		for _, w := range []leavingWorld{own, other, keeping, spent} {
			w.start = w.v
			todo = append(todo, w)
		}
	}
	been := map[leavingWorld]bool{}
	ends = map[move]bool{}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch {
		case w.wrong != "":
			return len(been), ends, fmt.Sprintf("%s: %+v", w.wrong, w)
		case been[w]:
			continue
		case w.ended != 0:
			ends[w.ended] = true
			continue
		}
		been[w] = true
		todo = append(todo, w.otherwise()...)
		now := w.step(rule)
		todo = append(todo, now)
		if w.lost == 0 && now.ended == 0 && now.wrong == "" { // the answer is lost, and the call is repeated
			again := now
			again.lost, again.v, again.marking, again.by = 1, w.start, false, ""
			if again.wasKept = again.wasKept || again.kept; again.keep == 0 || !again.kept {
				todo = append(todo, again)
			}
		}
	}
	return len(been), ends, ""
}

// Whatever others do to a node that must go, and whichever answer is lost: the call deletes no node that another client
// keeps, and its result is true.
func TestLeaves(t *testing.T) {
	t.Parallel()
	states, ends, wrong := walkLeaving(rightRule)
	if wrong != "" {
		t.Fatal(wrong)
	}
	if len(ends) != 4 {
		t.Errorf("the ends are %v; want all four", ends)
	}
	t.Logf("%d states", states)
}

// The walk finds each of these mistakes.
func TestLeavesFindsMistakes(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]leavingRule{
		"whatever its version": {leaves, func(v view, deleted, changed bool) view {
			if v = v.wasDeleted(deleted, changed); !v.read {
				v = view{begins: v.begins, name: v.name, read: true, there: true, version: -1}
			}
			return v
		}},
		"changed is gone": {leaves, func(v view, deleted, changed bool) view {
			if v = v.wasDeleted(deleted, changed); !v.read {
				v.read = true
			}
			return v
		}},
		"kept or not":      {func(keep time.Duration, v view) move { v.kept = 0; return leaves(keep, v) }, view.wasDeleted},
		"keeps what waits": {func(keep time.Duration, v view) move { v.waits = false; return leaves(keep, v) }, view.wasDeleted},
		"never keeps":      {func(keep time.Duration, v view) move { return leaves(0, v) }, view.wasDeleted},
		"one name": {func(keep time.Duration, v view) move {
			if v.read && !v.there {
				return endAbsent
			}
			return leaves(keep, v)
		}, view.wasDeleted},
		"not read again": {leaves, func(v view, deleted, changed bool) view {
			if now := v.wasDeleted(deleted, changed); now.read || now.deleted {
				return now
			}
			return v
		}},
	} {
		if _, _, wrong := walkLeaving(rule); wrong == "" {
			t.Errorf("%s: nothing is wrong; want the mistake to be found", name)
		}
	}
}
