// Package shard keeps locks in several independent stores: each name is in one of them, which depends on the name and the
// names of the stores (rendezvous hashing). It is for users who outgrow one server.
//
// An added store takes over its share of the names and moves no others. While clients change from one list of stores to the
// next, clients that know both lists hold a name only in the stores of both, so that it is never held twice; see
// [Options.Previous].
//
// Importing the package registers the scheme shard.
package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// MaxWeight is the largest share that a store can have.
const MaxWeight = 100

// A Store is one of the stores that names are spread over.
type Store struct {
	Name   string        // decides, for ever, which names it has; letters, digits, '-', '_' and '.'
	Driver driver.Driver // its connection
	Weight int           // its share relative to the others'; 0 means 1
}

// Options change how stores are used. Nil means the defaults, and so does the zero of each field.
type Options struct {
	// Previous is the list of stores that some clients still have as their only list. A name that the two lists put in
	// different stores is held only when it is held in both, the earlier first. So two clients with a common list have a
	// common store for every name, and clients without one must not work at once: every client gets both lists before any
	// client gets only the new one.
	//
	// A store in both lists has its Driver in only one of them.
	Previous []Store
}

// New returns a driver over stores. It owns their drivers, even if it fails: closing it closes them. It can list, watch and
// break if all of them can.
func New(stores []Store, o *Options) (driver.Driver, error) {
	lists := [][]Store{stores}
	if o != nil && len(o.Previous) > 0 {
		lists = [][]Store{o.Previous, stores}
	}
	s, err := newShards(lists)
	if err != nil {
		for _, l := range lists {
			for _, st := range l {
				if st.Driver != nil {
					st.Driver.Close()
				}
			}
		}
		return nil, driver.Refused(err)
	}
	return s.able(), nil
}

// A shards is the driver with the powers that every store has.
type shards struct {
	lists   []list   // oldest first
	stores  []*store // of all lists, each once
	members *membership

	dualHolds dualHolds
	life      *work.Life
}

// A store is one store, with its name.
type store struct {
	driver.Driver
	name string
}

func newShards(lists [][]Store) (*shards, error) {
	s := &shards{dualHolds: dualHolds{of: map[string]*dualHold{}}, life: work.Begin()}
	known := map[string]*store{}
	for _, given := range lists {
		if err := s.know(known, given); err != nil {
			return nil, err
		}
	}
	for _, st := range s.stores {
		if st.Driver == nil {
			return nil, fmt.Errorf("store %s has no driver", st.name)
		}
	}
	for _, given := range lists {
		var l list
		for _, g := range given {
			l = append(l, newMember(known[g.Name], max(1, g.Weight)))
		}
		s.lists = append(s.lists, l)
	}
	s.members = newMembership(s)
	return s, nil
}

// know adds the stores of a list that are not known yet.
func (s *shards) know(known map[string]*store, given []Store) error {
	if len(given) == 0 {
		return errors.New("there must be at least one store")
	}
	inList := map[string]bool{}
	for _, g := range given {
		switch st := known[g.Name]; {
		case g.Name == "" || driver.EncodeName(g.Name) != g.Name:
			return fmt.Errorf("%q cannot be what a store is called: use letters, digits, '-', '_' and '.'", g.Name)
		case inList[g.Name]:
			return fmt.Errorf("two stores are called %s", g.Name)
		case g.Weight < 0 || g.Weight > MaxWeight:
			return fmt.Errorf("store %s has weight %d; want at most %d", g.Name, g.Weight, MaxWeight)
		case st == nil:
			known[g.Name] = &store{g.Driver, g.Name}
			s.stores = append(s.stores, known[g.Name])
		case st.Driver == nil:
			st.Driver = g.Driver
		case g.Driver != nil:
			return fmt.Errorf("store %s has a driver in both lists", g.Name)
		}
		inList[g.Name] = true
	}
	return nil
}

// promise returns the traits of the weakest store, without the powers that a move removes.
func (s *shards) promise() driver.Traits {
	all := make([]driver.Traits, len(s.stores))
	for i, st := range s.stores {
		all[i] = st.Traits()
		notes, warnings := all[i].Notes, all[i].Warnings
		all[i].Notes, all[i].Warnings = nil, slices.Clone(warnings)
		for _, n := range notes {
			all[i].Note("Store %s: %s", st.name, n)
		}
		for j := range warnings {
			all[i].Warnings[j].Text = "Store " + st.name + ": " + warnings[j].Text
		}
	}
	t := driver.Weakest(all...)
	t.Store = "shard"
	t.Note("Each name is in one store: while that store is down, its names cannot be had, and the others can.")
	if len(s.lists) > 1 {
		t.Ordered, t.Fencing = false, driver.NoFencing
		t.Note("Stores are being added or removed: until that is over, names that move cost two requests, " +
			"are had in no order, and their tokens can fall.")
	}
	return t
}

// Traits is [driver.Driver]. It combines them at each call: a store may later promise less.
func (s *shards) Traits() driver.Traits { return s.promise() }

// Close is [driver.Driver].
func (s *shards) Close() error {
	s.life.End()
	s.life.Wait()
	var first error
	for _, st := range s.stores {
		if err := st.Close(); err != nil && first == nil {
			first = st.says(err)
		}
	}
	return first
}

// Alert is [driver.Alerter], for the stores that learn of danger.
func (s *shards) Alert(endangered func(ids ...string)) {
	for _, st := range s.stores {
		if a, ok := st.Driver.(driver.Alerter); ok {
			a.Alert(endangered)
		}
	}
}

// says names the store in an error, unless the error is one of the contract's own, which are the same for all stores.
func (st *store) says(err error) error {
	if err == nil || errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*driver.CapacityError](err); ok {
		return err
	}
	return fmt.Errorf("store %s: %w", st.name, err)
}
