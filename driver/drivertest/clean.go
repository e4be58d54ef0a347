package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Cleaning is a store that now and then removes unused names. The suite decides when it does so.
type Cleaning struct {
	Driver driver.Driver // the suite closes it

	// Later makes everything in the store older by a time, or moves its clock on.
	Later func(by time.Duration)

	// Clean looks once for names that nobody has used for an hour, and removes no more than 3 of them.
	Clean func() error

	// Names returns for how many names the store keeps something.
	Names func() int

	// LockTx locks a name in a transaction that ends. Locked returns the number of names for which the store keeps data of
	// transactions. Nil means that transactions cannot lock.
	LockTx func(name string) error
	Locked func() int
}

var cleanCases = []Case{
	{"Clean", "Nothing stays of names that nobody uses any more and of claims whose clients died, however many names are in use, " +
		"and what is in use stays.", 0, clean},
}

func clean(r *run) {
	if r.store.Cleaning == nil {
		return
	}
	c := r.store.Cleaning(r)
	r.Cleanup(func() { c.Driver.Close() })
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	r.ctx = ctx
	claim := func(name, id string, lasts time.Duration) *driver.Claim {
		c := r.claim()
		c.Name, c.ID, c.TTL, c.Wait = name, id, lasts, lasts
		return c
	}
	const used, idle = 8, 5
	var holders []*driver.Claim
	for i := range used {
		name := fmt.Sprint("used/", i)
		holder := claim(name, "holds", 24*time.Hour)
		r.holds(c.Driver, holder)
		r.waits(c.Driver, claim(name, "waits", 24*time.Hour))
		holders = append(holders, holder)
	}
	for i := range idle {
		left := claim(fmt.Sprint("idle/", i), "left", time.Minute)
		r.holds(c.Driver, left)
		r.leave(c.Driver, left)
	}
	lone := claim("died/lone", "left", time.Minute)
	r.holds(c.Driver, lone)
	r.leave(c.Driver, lone)
	for _, died := range []*driver.Claim{
		claim("died/lone", "holds", 30*time.Minute), claim("died/queue", "holds", 30*time.Minute), claim("died/queue", "waits", 30*time.Minute),
	} {
		died.Delay = r.delay(5 * time.Minute)
		r.enter(c.Driver, died)
	}
	for i := range idle {
		if c.LockTx == nil {
			break
		}
		if err := c.LockTx(fmt.Sprint("locked/", i)); err != nil {
			r.Fatalf("a transaction that locks: %v; want nil", err)
		}
	}
	for _, step := range []struct {
		by   time.Duration
		left int
		what string
	}{
		{20 * time.Minute, used + idle + 2, "nothing is removed in the hour after its use"},
		{60 * time.Minute, used + 2, "names that were not used for an hour are removed, and not those whose claims have run out since"},
		{70 * time.Minute, used, "what holders and waiters left behind that died is removed"},
	} {
		c.Later(step.by)
		for range used + idle + 2 {
			if err := c.Clean(); err != nil {
				r.Fatalf("cleaning: %v; want nil", err)
			}
		}
		if left := c.Names(); left != step.left {
			r.Errorf("the store has something of %d names; want %d: %s", left, step.left, step.what)
		}
	}
	if c.Locked != nil && c.Locked() != 0 {
		r.Errorf("the store has something of %d names that transactions locked; want none", c.Locked())
	}
	for _, holder := range holders {
		r.holds(c.Driver, holder)
	}
}
