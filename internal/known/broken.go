package known

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
)

// maxBroken is how many claims are remembered as broken. Each is asked for soon after.
const maxBroken = 256

// Broken are claims of which a message said that somebody broke them by hand. A message may be forged, so it decides nothing: it
// only explains why the store says that a claim is gone. The zero Broken is empty.
type Broken struct {
	mu      sync.Mutex // guards what follows
	records map[string]string
	order   []string // of the ids, as they came
}

// Heard notes that a claim was broken, and the record of who broke it and why.
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

// Explain returns the error about a claim, or, if it only says that the claim is gone and the claim is known to be broken, a
// [*driver.BrokenError].
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
