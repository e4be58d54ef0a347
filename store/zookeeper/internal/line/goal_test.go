package line

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A rule is the goals, and the view after a change; a planted mistake replaces one of them.
type rule struct {
	leaves     goal
	stays      goal
	departs    goal
	amends     goal
	wasChanged func(v view, m move, err, why error) view
}

// The amendment of the walk: another record, and another weight.
const (
	before, after = "before", "after"
	lighter       = 1
)

var amendment = &driver.Claim{Weight: driver.All, Capacity: driver.All, Record: before,
	Amend: &driver.Amendment{Record: after, Weight: lighter}}

func rightRule() rule {
	return rule{leaves, stays(time.Second), departs(time.Second), amends(amendment), view.wasChanged}
}

// A purpose chooses the goal.
type purpose int

const (
	toLeave purpose = iota // of this client's claim
	toStay
	toAmend
	toClear    // of a claim whose time as a kept one is over
	toPart     // of another client's claim
	toPartKept // with Keep
)

// A goalWorld is a claim's node, the call about it, and other clients, which change, keep, replace or remove the node at any
// time.
type goalWorld struct {
	there, kept, holds bool
	version            int32
	name               string
	weight             int64
	record             string

	is      purpose
	knows   string // this client's memory of the name, if the claim is its own
	v       view
	awaits  bool // the claim did not hold at first
	ended   verb // goesOn until the end
	deleted bool // by this call
	wasKept bool // by another client

	others, moves, lost int // how many events there were
	wrong               string
}

const maxOthers = 3

func (r *rule) of(is purpose) goal {
	switch is {
	case toStay:
		return r.stays
	case toAmend:
		return r.amends
	case toPartKept:
		return r.departs
	}
	return r.leaves
}

// own reports whether the claim is this client's.
func (w *goalWorld) own() bool { return w.is < toPart }

// otherwise returns the worlds after another client, or another call, did something.
func (w goalWorld) otherwise() (next []goalWorld) {
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
	next = []goalWorld{changed, kept, gone, holds}
	if !w.kept && w.is != toClear && w.is != toLeave { // a claim that leaves here is not amended
		amended := w
		amended.name, amended.version = w.name+"'", 0
		if w.own() {
			amended.knows = amended.name
		}
		next = append(next, amended)
	}
	return next
}

// step returns the world after the next move of the call.
func (w goalWorld) step(r *rule) goalWorld {
	if w.moves++; w.moves > 5*(maxOthers+3) {
		w.wrong = "there is no end of it"
		return w
	}
	switch m := r.of(w.is)(w.v); m.verb {
	case moveSeek:
		w.seek()
	case moveRead:
		w.read(m.enough)
	case moveWrite, moveDelete:
		w.change(r, m)
	default:
		w.ends(m.verb)
	}
	return w
}

func (w *goalWorld) seek() {
	switch {
	case w.own():
		lc := LocalClaim{node: node{name: w.knows, weight: w.weight}}
		switch {
		case w.is == toClear:
			lc.lease.state = claimSpent
		case w.holds:
			lc.lease.state = claimHolding
		}
		w.v = (&Keeper{}).viewOf(&lc, w.v)
	case w.there:
		w.v = view{name: w.name}
	default:
		w.v = view{missing: true}
	}
}

// sees reports whether the node that the call knows exists.
func (w *goalWorld) sees() bool { return w.there && w.v.name == w.name }

func (w *goalWorld) read(enough knowledge) {
	if !w.sees() {
		w.v.gone = true
		return
	}
	w.v.known, w.v.version = enough, w.version
	w.v.data = znode.Data{Stile: znode.DataVersion, Record: w.record}
	if w.kept {
		w.v.data.Kept = time.Second
	}
	if enough == knownQueue {
		w.v.holds = w.holds
	}
}

// change is the server's part of a change.
func (w *goalWorld) change(r *rule, m move) {
	var err error
	switch {
	case !w.sees():
		err = wire.NoNode
	case w.v.version >= 0 && w.v.version != w.version:
		err = wire.BadVersion
	case w.kept && w.is != toClear:
		w.wrong = "a node changed that another client keeps"
	case m.verb == moveWrite && !w.holds:
		w.wrong = "a node changed whose claim waits"
	case m.verb == moveDelete && w.is == toPartKept && !w.awaits:
		w.wrong = "a node went that was to be kept"
	case m.verb == moveDelete:
		w.there, w.deleted = false, true
	default:
		w.version++
		w.kept, w.record = m.data.Kept > 0, m.data.Record
		if m.weight != w.v.weight {
			w.name, w.version, w.weight = w.name+"'", 0, m.weight
			w.knows = w.name
		}
	}
	w.v = r.wasChanged(w.v, m, err, err)
}

// ends checks the result of the call.
func (w *goalWorld) ends(end verb) {
	w.ended = end
	switch {
	case end == endDone && w.is == toAmend:
		if w.record != after || w.weight != lighter {
			w.wrong = "it says that the claim is amended, and it is not"
		}
	case end == endDone && (w.is == toStay || w.is == toPartKept && !w.deleted):
		if w.there && !w.kept {
			w.wrong = "it says that the node is kept, and it is not"
		}
	case end == endDone && !w.deleted:
		w.wrong = "it says that it deleted the node, and has not"
	case end == endAbsent && w.there:
		w.wrong = "it says that the node is not there, and it is"
	case end == endKept && !w.wasKept:
		w.wrong = "it says that another client keeps the node, which none did"
	case (end == endUnheld || end == endRefused) && !w.awaits:
		w.wrong = "it says that the claim waits, and it holds"
	}
}

// goalWorlds are the worlds in which the walk begins.
func goalWorlds() (all []goalWorld) {
	for is := toLeave; is <= toPartKept; is++ {
		for _, holds := range []bool{false, true} {
			w := goalWorld{
				is: is, there: true, holds: holds, awaits: !holds, kept: is == toClear,
				name: "a", knows: "a", record: before, weight: driver.All,
			}
			all = append(all, w)
		}
	}
	return all
}

// walkGoals walks through all states. It returns the first error, and the ends of each goal.
func walkGoals(r rule) (states int, ends map[string]bool, wrong string) {
	todo, been := goalWorlds(), map[goalWorld]bool{}
	ends = map[string]bool{}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch {
		case w.wrong != "":
			return len(been), ends, fmt.Sprintf("%s: %+v", w.wrong, w)
		case been[w]:
			continue
		case w.ended != goesOn:
			ends[fmt.Sprint(w.is, w.ended)] = true
			continue
		}
		been[w] = true
		todo = append(todo, w.otherwise()...)
		now := w.step(&r)
		todo = append(todo, now)
		if w.lost == 0 && now.ended == goesOn && now.wrong == "" { // the answer is lost, and the call is repeated
			again := now
			again.lost, again.v, again.deleted = 1, view{}, false
			again.wasKept = w.wasKept || now.kept // by the first call
			todo = append(todo, again)
		}
	}
	return len(been), ends, ""
}

// Whatever others do to a node, and whichever answer is lost: a call changes no node that another client keeps, and its
// result is true.
func TestGoals(t *testing.T) {
	t.Parallel()
	states, ends, wrong := walkGoals(rightRule())
	if wrong != "" {
		t.Fatal(wrong)
	}
	for _, of := range []struct {
		is   purpose
		want []verb
	}{
		{toLeave, []verb{endDone, endAbsent, endKept}},
		{toStay, []verb{endDone, endAbsent, endKept, endUnheld}},
		{toAmend, []verb{endDone, endAbsent, endKept, endRefused}},
		{toClear, []verb{endDone, endAbsent}},
		{toPart, []verb{endDone, endAbsent, endKept}},
		{toPartKept, []verb{endDone, endAbsent, endKept}},
	} {
		for end := endDone; end <= endRefused; end++ {
			want := false
			for _, one := range of.want {
				want = want || one == end
			}
			if got := ends[fmt.Sprint(of.is, end)]; got != want {
				t.Errorf("purpose %d ends by %d: %v; want %v", of.is, end, got, want)
			}
		}
	}
	t.Logf("%d states", states)
}

// The walk finds each of these mistakes.
func TestGoalsFindMistakes(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(r *rule){
		"whatever its version": func(r *rule) {
			r.wasChanged = func(v view, m move, err, why error) view {
				if now := v.wasChanged(m, err, why); now.known != knownNot || now.done {
					return now
				}
				v.version = -1
				return v
			}
		},
		"changed is gone": func(r *rule) {
			r.wasChanged = func(v view, m move, err, why error) view {
				now := v.wasChanged(m, err, why)
				now.gone = now.gone || now.known == knownNot
				return now
			}
		},
		"changed is done": func(r *rule) {
			r.wasChanged = func(v view, m move, err, why error) view {
				now := v.wasChanged(m, err, why)
				now.done = now.done || now.known == knownNot
				return now
			}
		},
		"not read again": func(r *rule) {
			r.wasChanged = func(v view, m move, err, why error) view {
				now := v.wasChanged(m, err, why)
				now.known = v.known
				return now
			}
		},
		"kept or not": func(r *rule) {
			r.leaves = func(v view) move { v.data.Kept = 0; return leaves(v) }
		},
		"kept anew": func(r *rule) {
			r.stays = func(v view) move { v.data.Kept = 0; return stays(time.Second)(v) }
		},
		"amended while kept": func(r *rule) {
			r.amends = func(v view) move { v.data.Kept = 0; return amends(amendment)(v) }
		},
		"keeps what waits": func(r *rule) {
			r.stays = func(v view) move { v.holds = v.known == knownQueue; return stays(time.Second)(v) }
		},
		"never keeps":         func(r *rule) { r.departs = departs(0) },
		"amends what waits":   func(r *rule) { r.amends = func(v view) move { v.holds = true; return amends(amendment)(v) } },
		"amends the record":   func(r *rule) { r.amends = amendsPart(&driver.Amendment{Record: after}) },
		"amends the weight":   func(r *rule) { r.amends = amendsPart(&driver.Amendment{Weight: lighter}) },
		"leaves by one name":  func(r *rule) { r.leaves = byOneName(leaves) },
		"stays by one name":   func(r *rule) { r.stays = byOneName(r.stays) },
		"departs by one name": func(r *rule) { r.departs = byOneName(r.departs) },
		"amends by one name":  func(r *rule) { r.amends = byOneName(r.amends) },
	} {
		r := rightRule()
		plant(&r)
		if _, _, wrong := walkGoals(r); wrong == "" {
			t.Errorf("%s: nothing is wrong; want the mistake to be found", name)
		}
	}
}

func amendsPart(a *driver.Amendment) goal {
	c := *amendment
	c.Amend = a
	return amends(&c)
}

// byOneName is a goal that takes a claim for gone if no node has the name that was known.
func byOneName(right goal) goal {
	return func(v view) move {
		if v.gone {
			return move{verb: endAbsent}
		}
		return right(v)
	}
}
