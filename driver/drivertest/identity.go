package drivertest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/stilelock/stile/driver"
)

var identityCases = []Case{
	{"Identity", "All clients of the store get the same id, whenever they ask.", 0, identity},
	{"IdentityApart", "Clients for which the same name is another lock get another id.", 0, identityApart},
	{"StoresApart", "What is held in one store is free in another, whose listings do not have it.", 0, storesApart},
	{"IdentityIsNoLock", "The place of the store's id is that of no lock, and no listing has it.", 0, identityIsNoLock},
	{"IdentityAtOnce", "All clients of a store get the same id, also those that are the first to ask.", 0, identityAtOnce},
}

// identify returns the store's id, and whether the client has one.
func (r *run) identify(d driver.Driver) (string, bool) {
	r.Helper()
	i, ok := d.(driver.Identifier)
	if !ok {
		return "", false
	}
	id, err := i.Identity(r.ctx)
	switch {
	case errors.Is(err, driver.ErrUnsupported):
		return "", false
	case err != nil:
		r.Fatalf("identity: %v; want an id", err)
	}
	if id == "" || strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }) {
		r.Errorf("the id is %q; want printable characters", id)
	}
	return id, true
}

// identifies reports whether the store keeps an id.
func (r *run) identifies() bool {
	d := r.store.Open(r)
	defer d.Close()
	_, ok := r.identify(d)
	return ok
}

func identity(r *run) {
	first := r.store.Open(r)
	id, ok := r.identify(first)
	if err := first.Close(); err != nil {
		r.Errorf("close = %v; want nil", err)
	}
	if !ok {
		return
	}
	for range 2 { // the second opens the store while no other client of this case has it open
		d := r.store.Open(r)
		for range 2 {
			if again, _ := r.identify(d); again != id {
				r.Errorf("the id is %q, and was %q", again, id)
			}
		}
		if err := d.Close(); err != nil {
			r.Errorf("close = %v; want nil", err)
		}
	}
}

func identityApart(r *run) {
	if r.store.Fresh == nil {
		return
	}
	ids := map[string]bool{}
	for _, open := range []func() driver.Driver{func() driver.Driver { return r.store.Open(r) }, r.store.Fresh(r), r.store.Fresh(r)} {
		d := open()
		id, ok := r.identify(d)
		if ok && ids[id] {
			r.Errorf("two stores have the id %q", id)
		}
		ids[id] = true
		d.Close()
	}
}

func storesApart(r *run) {
	if r.store.Fresh == nil {
		return
	}
	stores := []func() driver.Driver{func() driver.Driver { return r.store.Open(r) }, r.store.Fresh(r), r.store.Fresh(r)}
	var clients []driver.Driver
	var claims []*driver.Claim
	for i, open := range stores {
		d := open()
		defer d.Close()
		c := r.claim()
		p := r.enter(d, c)
		if !p.Holds {
			r.Fatalf("the name is taken in store %d, as another of %d has it; want it free", i, i)
		}
		c.Ticket = p.Ticket
		clients, claims = append(clients, d), append(claims, c)
	}
	for i, d := range clients {
		if l, ok := d.(driver.Lister); ok {
			list, err := l.List(r.ctx, &driver.Query{Name: r.name})
			if err != nil || len(list) != 1 || len(list[0].Claims) != 1 {
				r.Errorf("store %d lists %+v, %v; want its one claim", i, list, err)
			}
		}
		r.leave(d, claims[i])
		for later := i + 1; later < len(clients); later++ {
			if a := r.renew(clients[later], claims[later]); a.Err != nil {
				r.Errorf("the claim in store %d left, and the renewal of that in store %d is %v; want nil", i, later, a.Err)
			}
		}
	}
}

func identityIsNoLock(r *run) {
	if r.store.Fresh == nil {
		return
	}
	d := r.store.Fresh(r)()
	defer d.Close()
	id, ok := r.identify(d)
	if !ok {
		return
	}
	var want []string // names and texts that a store may use for the id
	for _, name := range []string{"%25id", "%id", "id", "stile/id", id} {
		c := r.claim()
		c.Name = name
		r.holds(d, c)
		defer r.leave(d, c)
		want = append(want, name)
	}
	if l, ok := d.(driver.Lister); ok {
		list, err := l.List(r.ctx, &driver.Query{})
		var got []string
		for _, of := range list {
			got = append(got, of.Name)
		}
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			r.Errorf("the list has the names %q, %v; want %q", got, err, want)
		}
	}
	if again, _ := r.identify(d); again != id {
		r.Errorf("with locks the id is %q, and was %q", again, id)
	}
}

func identityAtOnce(r *run) {
	if r.store.Fresh == nil {
		return
	}
	open, ids := r.store.Fresh(r), make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		d := open()
		defer d.Close()
		all.Go(func() {
			var err error
			if asks, ok := d.(driver.Identifier); ok {
				if ids[i], err = asks.Identity(r.ctx); err != nil && !errors.Is(err, driver.ErrUnsupported) {
					r.Errorf("identity: %v; want an id", err)
				}
			}
		})
	}
	all.Wait()
	if slices.ContainsFunc(ids, func(id string) bool { return id != ids[0] }) {
		r.Errorf("the ids are %q; want one", ids)
	}
}
