package drivertest

import (
	"sync"
	"sync/atomic"

	"github.com/stilelock/stile/driver"
)

var stressCases = []Case{
	{"StressExclusive", "The weights of all holders of a name fit its capacity, and exclusive holders follow each other " +
		"in ticket order.", ordered, stressExclusive},
	{"StressShared", "Readers and writers of one name exclude each other.", ordered | shared, stressShared},
	{"StressPermits", "The weights of all holders of a name fit its capacity.", ordered | permits, stressPermits},
}

func stressExclusive(r *run) {
	var holders, last atomic.Int64
	r.stress(func(int) *driver.Claim { return r.claim() }, func(_ *driver.Claim, p driver.Place) {
		if n := holders.Add(1); n != 1 {
			r.Errorf("%d claims hold at once", n)
		}
		poll(r.ctx) // long enough for another claim to enter
		if was := last.Swap(p.Ticket); p.Ticket <= was && r.traits.Fencing != driver.NoFencing {
			r.Errorf("ticket %d holds after ticket %d", p.Ticket, was)
		}
		holders.Add(-1)
	})
}

func stressShared(r *run) {
	var readers, writers atomic.Int64
	r.stress(func(i int) *driver.Claim {
		if i%3 == 0 {
			return r.claim()
		}
		return r.shared()
	}, func(c *driver.Claim, _ driver.Place) {
		mine := &readers
		if c.Weight == driver.All {
			mine = &writers
		}
		mine.Add(1)
		poll(r.ctx)
		if w, n := writers.Load(), readers.Load(); w > 1 || w == 1 && n > 0 {
			r.Errorf("%d writers and %d readers hold at once", w, n)
		}
		mine.Add(-1)
	})
}

func stressPermits(r *run) {
	var taken atomic.Int64
	r.stress(func(i int) *driver.Claim { return r.permit(int64(i%3+1), 4) }, func(c *driver.Claim, _ driver.Place) {
		if n := taken.Add(c.Weight); n > 4 {
			r.Errorf("%d of 4 permits are taken at once", n)
		}
		poll(r.ctx)
		taken.Add(-c.Weight)
	})
}

// stress lets claims of two clients come and go at once. Some give up waiting.
func (r *run) stress(claim func(i int) *driver.Claim, hold func(*driver.Claim, driver.Place)) {
	const workers, rounds = 8, 6
	var all sync.WaitGroup
	for w := range workers {
		d := r.a
		if w%2 == 1 {
			d = r.b
		}
		all.Go(func() {
			for i := range rounds {
				c := claim(w + i)
				p, err := d.Enter(r.ctx, c)
				if err == nil && !p.Holds && (w+i)%3 == 0 {
					err = d.Leave(r.ctx, &driver.Release{Claim: c})
					if err != nil {
						r.Errorf("leave of a waiter: %v", err)
					}
					continue
				}
				if err == nil && !p.Holds {
					c.Ticket = p.Ticket
					p, err = r.turn(r.ctx, d, c)
				}
				if err != nil {
					r.Errorf("a turn: %v", err)
					return
				}
				hold(c, p)
				if err := d.Leave(r.ctx, &driver.Release{Claim: c}); err != nil {
					r.Errorf("leave: %v", err)
				}
			}
		})
	}
	all.Wait()
}
