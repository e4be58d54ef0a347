package casqueue

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// names are the names that this client changes or waits for, and some that it changed before.
type names struct {
	mu  sync.Mutex // guards the fields below, and their elements
	all map[string]*name
}

// A name connects this client's goroutines that use one name.
type name struct {
	text string
	turn chan struct{} // has room for one: the goroutine that changes the name
	seen *sight        // the last value that this client saw, if the store returns it; guarded by turn
	kick chan struct{} // has room for one: poll now

	uses  int            // guarded by the mutex of names, like the rest
	waits map[*wait]bool // the waits for this name
	awake bool           // a goroutine polls for them
}

// maxNames is how many names a client remembers, unless more are in use. The next use of a forgotten name costs one more
// request.
const maxNames = 1024

// use returns the name. The caller gives it back with done.
func (n *names) use(text string) *name {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.all[text]
	if one == nil {
		n.trimLocked()
		one = &name{text: text, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1), waits: map[*wait]bool{}}
		n.all[text] = one
	}
	one.uses++
	return one
}

// trimLocked forgets unused names until there is room for one more.
func (n *names) trimLocked() {
	if n.all == nil {
		n.all = map[string]*name{}
	}
	if len(n.all) < maxNames {
		return
	}
	for text, one := range n.all {
		if one.uses == 0 {
			delete(n.all, text)
		}
		if len(n.all) < maxNames/2 {
			return
		}
	}
}

func (n *names) done(one *name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one.uses--; one.uses == 0 && one.seen == nil { // a goroutine that has the turn still uses the name
		delete(n.all, one.text)
	}
}

// take waits until nobody else of this client changes the name, or ctx ends.
func (n *names) take(ctx context.Context, text string) (*name, error) {
	one := n.use(text)
	select {
	case one.turn <- struct{}{}:
		return one, nil
	case <-ctx.Done():
		n.done(one)
		return nil, driver.Ended(ctx, false)
	}
}

func (n *names) free(one *name) {
	<-one.turn
	n.done(one)
}

// wakeLookers makes the goroutine that polls for the name's waiters poll at once.
func (one *name) wakeLookers() {
	select {
	case one.kick <- struct{}{}:
	default:
	}
}

// changed makes this client poll for its waiters, since it has changed the name.
func (n *names) changed(one *name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one.awake {
		one.wakeLookers()
	}
}

// waiting returns the waits for a name that have not seen enough yet. If there are none, the goroutine that polls must end.
func (n *names) waiting(one *name) []*wait {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]*wait, 0, len(one.waits))
	for w := range one.waits {
		if !w.over.Load() {
			list = append(list, w)
		}
	}
	one.awake = len(list) > 0
	return list
}
