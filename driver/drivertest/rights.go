package drivertest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stilelock/stile/driver"
)

var rightsCases = []Case{
	{"Rights", "Who may not do all that a client does is refused for good, at once or by a call; and what is refused for one name is for all.",
		0, rights},
}

func rights(r *run) {
	for _, lacks := range slices.Sorted(maps.Keys(r.store.Lacking)) {
		d, err := r.store.Lacking[lacks](r)()
		if err != nil {
			r.definite("without "+lacks+", open", err)
			continue
		}
		r.alike(lacks, d)
		d.Close()
	}
}

// alike enters claims of many names, and checks that all get the same result.
func (r *run) alike(lacks string, d driver.Driver) {
	r.Helper()
	const names = 12 // so that each of several servers has one
	held := 0
	for i := range names {
		c := r.claim()
		c.Name = fmt.Sprint(r.name, "/", lacks, "/", i)
		p, err := d.Enter(r.ctx, c)
		if err != nil {
			r.definite("without "+lacks+", enter", err)
			continue
		}
		if c.Ticket = p.Ticket; p.Holds {
			held++
		}
		if err := d.Renew(r.ctx, []*driver.Claim{c})[0].Err; err != nil {
			r.definite("without "+lacks+", renewal", err)
		}
		if err := d.Leave(r.ctx, &driver.Release{Claim: c}); err != nil {
			r.definite("without "+lacks+", leave", err)
		}
	}
	if held > 0 && held < names {
		r.Errorf("without %s claims of %d names hold, of %d; want all or none", lacks, held, names)
	}
}

// definite fails unless an error is a permanent refusal.
func (r *run) definite(what string, err error) {
	r.Helper()
	if driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) {
		r.Errorf("%s = %v (%v); want a refusal for good", what, err, driver.OutcomeOf(err))
	}
}
