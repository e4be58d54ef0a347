package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// The claims of a world: two that share a key, and one that wants it alone.
var wants = [3]struct {
	id, key string
	shared  bool
}{{"reader", "1", true}, {"other reader", "1", true}, {"writer", "1", false}}

// A world is a few claims, and what the server may have: entered is nil until a claim has entered.
type world struct {
	claims  *claims
	entered [3]*claim
	may     map[string]bool // keys that may be locked in the server
	homes   int             // connections given up so far
	doubts  []*fakeConn     // the given-up connections that the server may know
	ended   map[string]bool // claims that are over
}

func newWorld() *world {
	return &world{claims: newClaims(time.Minute), may: map[string]bool{}, ended: map[string]bool{}}
}

// An event is one event of the world, in words.
type event struct {
	what  string
	claim int
}

func events() (list []event) {
	for i := range wants {
		for _, what := range []string{"asks", "leaves", "is kept"} {
			list = append(list, event{what, i})
		}
	}
	for _, what := range []string{"yes", "no", "refused", "no answer", "proven"} {
		list = append(list, event{what, -1})
	}
	return list
}

// happen makes an event happen, and returns what of it is wrong.
func (w *world) happen(e event) error {
	cs := w.claims
	switch e.what {
	case "asks":
		c := w.entered[e.claim]
		if c == nil {
			c = cs.add(wants[e.claim].id, wants[e.claim].key, wants[e.claim].shared)
			w.entered[e.claim] = c
		}
		if c.state == claimWaiting {
			cs.askForKey(c)
		}
	case "leaves":
		if c := w.entered[e.claim]; c != nil {
			cs.release(c)
		}
	case "is kept":
		if c := w.entered[e.claim]; c != nil {
			cs.move(c, claimKept)
		}
	case "yes", "no":
		w.answer(e.what == "yes")
	case "refused":
		for _, d := range cs.stepsOf(true) {
			delete(w.may, d.Key)
		}
		cs.undone(errors.New("no room"))
	case "no answer":
		if err := w.fall(); err != nil {
			return err
		}
	case "proven":
		if len(w.doubts) > 0 {
			w.prove(w.doubts[0])
			w.doubts = w.doubts[1:]
		}
	}
	for _, d := range cs.stepsOf(false) {
		w.may[d.Key] = true // from now on it can be sent
	}
	cs.settle("")
	return w.check()
}

func (w *world) answer(yes bool) {
	steps := w.claims.stepsOf(false)
	done := make([]bool, len(steps))
	for i, d := range steps {
		done[i] = yes || d.Free
		if d.Free == done[i] {
			delete(w.may, d.Key)
		}
	}
	w.claims.answered(done)
}

func (w *world) fall() error {
	var had []string
	for _, c := range w.entered {
		if c != nil && c.has() {
			had = append(had, c.id)
		}
	}
	home := &fakeConn{id: w.homes}
	w.homes++
	if ids := w.claims.fell(home); len(ids) != len(had) {
		return fmt.Errorf("the connection took %q with it; want %q", ids, had)
	}
	for _, id := range had {
		if !errors.Is(w.claims.gone(id), driver.ErrSession) {
			return fmt.Errorf("%s is told %w; want ErrSession", id, w.claims.gone(id))
		}
	}
	w.doubts = append(w.doubts, home)
	return nil
}

func (w *world) prove(home *fakeConn) {
	for name, k := range w.claims.keys {
		if k.on == Conn(home) {
			delete(w.may, name)
		}
	}
	w.claims.proven(home)
}

// check compares what the claims keep beside each other, and beside the server.
func (w *world) check() error {
	var line, leaving []*claim
	standing, having := map[string]*claim{}, map[string][]*claim{}
	for _, c := range w.entered {
		switch {
		case c == nil:
			continue
		case c.state == claimOver:
			fell := errors.Is(w.claims.gone(c.id), driver.ErrSession)
			was := w.ended[c.id]
			w.ended[c.id] = true
			if k := w.claims.keys[c.key]; !was && !fell && w.may[c.key] && (k == nil || k.state != keyHeld && k.asker == c) {
				return fmt.Errorf("%s is over, and its key may be locked for it", c.id)
			}
			continue
		case c.state == claimWaiting:
			line = append(line, c)
		case c.state == claimLeaving:
			leaving = append(leaving, c)
		case c.has():
			having[c.key] = append(having[c.key], c)
		}
		standing[c.id] = c
	}
	byTicket := func(a, b *claim) int { return int(a.ticket - b.ticket) }
	slices.SortFunc(line, byTicket)
	left := slices.SortedFunc(slices.Values(w.claims.leaving), byTicket)
	slices.SortFunc(leaving, byTicket)
	switch {
	case !maps.Equal(w.claims.byID, standing):
		return fmt.Errorf("the claims are %v; want %v", w.claims.byID, standing)
	case !slices.Equal(w.claims.line, line):
		return fmt.Errorf("the line is %v; want %v", w.claims.line, line)
	case !slices.Equal(left, leaving):
		return fmt.Errorf("%v leave; want %v", left, leaving)
	}
	for key := range w.may {
		if w.claims.keys[key] == nil {
			return fmt.Errorf("key %s may be locked in the server, and is taken for free", key)
		}
	}
	for name, k := range w.claims.keys {
		has := having[name]
		under := k.state == keyAsked || k.state == keyFreeing
		switch alone := slices.ContainsFunc(has, func(c *claim) bool { return !c.shared }); {
		case k.state == keyFree || k.n != len(has) || (k.state == keyHeld) != (len(has) > 0) || len(has) > 1 && alone:
			return fmt.Errorf("key %s is %+v; %d have it", name, k, len(has))
		case under != slices.Contains(w.claims.steps, k):
			return fmt.Errorf("key %s is in state %d, and in the next statement: %v", name, k.state, !under)
		}
	}
	for key := range having {
		if k := w.claims.keys[key]; k == nil || k.state != keyHeld {
			return fmt.Errorf("a claim holds, and key %s is %+v", key, k)
		}
	}
	return nil
}

// String differs for worlds whose future differs.
func (w *world) String() (text string) {
	for _, c := range w.entered {
		if c == nil {
			text += "- "
			continue
		}
		text += fmt.Sprint(c.state, slices.Contains(w.claims.joins, c), " ")
	}
	for _, c := range w.claims.line {
		text += c.id + ","
	}
	if k := w.claims.keys["1"]; k != nil {
		text += fmt.Sprint(" ", k.state, k.shared, k.asker.id)
		if k.state == keyDoubtful {
			text += fmt.Sprint(slices.Index(w.doubts, k.on.(*fakeConn)))
		}
	}
	return fmt.Sprint(text, " ", len(w.doubts))
}

// Whatever happens, in any order, to a few claims: a key has one holder or several that share it; what may be locked in the
// server is never taken for free, nor a claim for gone that it may be locked for; and each claim can end and does not come
// back.
func TestClaims(t *testing.T) {
	t.Parallel()
	replay := func(path []event) (w *world, err error) {
		w = newWorld()
		for _, e := range path {
			if err = w.happen(e); err != nil {
				return nil, fmt.Errorf("after %v: %w", path, err)
			}
		}
		return w, nil
	}
	const mostDoubts = 2
	seen, states, keys := map[string]bool{}, map[state]bool{}, map[keyState]bool{keyFree: true}
	for queue := [][]event{nil}; len(queue) > 0; queue = queue[1:] {
		for _, e := range events() {
			path := append(slices.Clip(queue[0]), e)
			w, err := replay(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(w.doubts) > mostDoubts || seen[w.String()] {
				continue
			}
			seen[w.String()] = true
			queue = append(queue, path)
			for _, c := range w.entered {
				if c != nil {
					states[c.state] = true
				}
			}
			for _, k := range w.claims.keys {
				keys[k.state] = true
			}
		}
	}
	if len(states) != len(moves)+1 || len(keys) != len(turns) {
		t.Errorf("of the states only %v and %v were reached", states, keys)
	}
	t.Logf("%d worlds", len(seen))
}

// A claim and a key go only the ways that are drawn.
func TestMoves(t *testing.T) {
	t.Parallel()
	for was := claimWaiting; was <= claimOver; was++ {
		for next := claimWaiting; next <= claimOver; next++ {
			cs := newClaims(time.Minute)
			c := cs.add("a", "a", false)
			c.state = was
			drawn := slices.Contains(moves[was], next)
			if got := cs.move(c, next); got != drawn || drawn && c.state != next || !drawn && c.state != was {
				t.Errorf("a claim from %d to %d: moved %v, to %d; want %v", was, next, got, c.state, drawn)
			}
		}
	}
	for was := keyFree; was <= keyDoubtful; was++ {
		for next := keyFree; next <= keyDoubtful; next++ {
			cs, k := newClaims(time.Minute), &key{state: was, proven: make(chan struct{})}
			drawn := slices.Contains(turns[was], next)
			if got := cs.turn(k, next); got != drawn || drawn && k.state != next || !drawn && k.state != was {
				t.Errorf("a key from %d to %d: turned %v, to %d; want %v", was, next, got, k.state, drawn)
			}
		}
	}
}
