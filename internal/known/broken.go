package known

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
)

// maxBroken is the most broken claims remembered. Each is asked for soon after.
const maxBroken = 256

// Broken has the claims that somebody broke by hand, according to messages. A message may be forged, so it decides nothing:
// it only explains why the store no longer has a claim. The zero Broken is empty.
type Broken struct {
	mu      sync.Mutex // guards the fields below
	records map[string]string
	order   []string // the ids in the order of the messages
}

// Heard notes that a claim was broken, and the record with who broke it and why.
func (b *Broken) Heard(id, record string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.records[id]; !known {
		if len(b.order) == maxBroken {
			delete(b.records, b.order[0])
			b.order = b.order[1:]
		}
		if b.records == nil {
			b.records = map[string]string{}
		}
		b.order = append(b.order, id)
	}
	b.records[id] = record
}

// Explain returns a [*driver.BrokenError] if err only reports that the claim is gone and the claim is known to be broken;
// otherwise err.
func (b *Broken) Explain(id string, err error) error {
	if !errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrSession) || driver.OutcomeOf(err) != driver.OutcomeRefused {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if record, known := b.records[id]; known {
		return &driver.BrokenError{Record: record}
	}
	return err
}
