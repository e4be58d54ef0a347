package claims

import (
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// ErrReentrant is the error of a caller whose context already holds the requested lock.
var ErrReentrant = errors.New("the context already holds this lock")

// Reenter shares the hold of a context with a new want, if both are for the same lock and the hold may be shared.
func (s *Share) Reenter(w *Want, shares bool) (*Share, error) {
	switch has := s.Terms(); {
	case has.Capacity != w.Capacity:
		return nil, &driver.CapacityError{Have: has.Capacity, Want: w.Capacity}
	case has.Capacity != driver.All:
		return nil, fmt.Errorf("%w: taking more permits while holding some can wait for ever; take them all at once", ErrReentrant)
	case has.Weight < w.Weight:
		return nil, fmt.Errorf("%w: a reader that waits to write waits for itself; release the read lock first", ErrReentrant)
	case !shares:
		return nil, fmt.Errorf("%w: it would wait for itself; open the lock with LockOptions.Reentrant to share the lease",
			ErrReentrant)
	}
	return s.Share()
}
