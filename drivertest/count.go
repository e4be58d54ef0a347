package drivertest

import (
	"errors"

	"github.com/stilelock/stile/driver"
)

// The cases of a name's own count of permits.
var countCases = []Case{
	{"CountLack", "A driver that keeps no counts refuses a claim of capacity 0 and a change of a count, and changes nothing.", 0, countLack},
}

// counted is a claim of some permits of as many as the name has.
func (r *run) counted(permits int64) *driver.Claim {
	c := r.claim()
	c.Weight, c.Capacity = permits, 0
	return c
}

func countLack(r *run) {
	if r.traits.Counts {
		return
	}
	for _, try := range []bool{false, true} {
		c := r.counted(1)
		if c.Try = try; !r.uncounted("enter with capacity 0", func() error { _, err := r.a.Enter(r.ctx, c); return err }()) {
			r.Errorf("and try was %v", try)
		}
	}
	holder := r.claim()
	r.holds(r.a, holder)
	for _, ask := range []bool{false, true} {
		breaker, ok := r.b.(driver.Breaker)
		if !ok {
			break
		}
		count := int64(1)
		_, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ask: ask, Count: &count})
		r.uncounted("break with a count", err)
	}
	if a := r.renew(r.a, holder); a.Err != nil {
		r.Errorf("renewal of the holder = %v; want nil", a.Err)
	}
	r.leave(r.a, holder)
}

// uncounted checks that a request was refused for want of a count.
func (r *run) uncounted(what string, err error) bool {
	r.Helper()
	if errors.Is(err, driver.ErrUnsupported) {
		return true
	}
	r.Errorf("%s = %v; want ErrUnsupported, as the traits lack counts", what, err)
	return false
}
