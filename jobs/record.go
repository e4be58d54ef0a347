package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile"
)

// keep is how long a job remembers its last tick: as long as a claim can be kept.
const keep = 24 * time.Hour

// A stage is what is known of a tick:
//
//	unknown ──► started ──► over
//
// A run that dies leaves its tick started. Only remember moves it on.
type stage string

const (
	unknown stage = ""        // nothing is remembered, or nothing any more
	started stage = "started" // it runs, or its run was cut off
	over    stage = "over"    // its run has returned
)

// A record is the last tick that any machine has begun. It is the value of a claim that nobody looks after: the name's
// second lock, name/last, taken and kept.
type record struct {
	tick   time.Time
	stage  stage
	ticket int64 // of the claim that has it
}

// errOutrun says that another machine has the job meanwhile.
var errOutrun = fmt.Errorf("%w: another machine has gone on with the job", stile.ErrLost)

func (j *Job) lastName() string { return j.name + "/last" }

// recall reads the record.
func (j *Job) recall(ctx context.Context) (record, error) {
	q, err := j.client.Show(ctx, j.lastName())
	if err != nil {
		return record{}, err
	}
	for _, c := range q.Claims {
		if !c.Holds {
			continue
		}
		text, word, _ := strings.Cut(c.Holder.Value, " ")
		tick, err := time.Parse(time.RFC3339, text)
		if err != nil || stage(word) != started && stage(word) != over {
			return record{}, fmt.Errorf("%w: %q holds %q, which is no tick of a job: it is used for something else",
				stile.ErrForeign, j.lastName(), c.Holder.Value)
		}
		return record{tick, stage(word), c.Ticket}, nil
	}
	return record{}, nil
}

// remember replaces the record that was read by the next one. It is called under the job's lock, and a machine that has
// lost that lock without knowing replaces nothing: it names the claim that it read, and whoever came meanwhile has replaced
// that one.
func (j *Job) remember(ctx context.Context, old, next record) (record, error) {
	if old.ticket != 0 {
		// One that is gone has run out, or was replaced, which the next step finds out.
		if _, err := j.client.Break(ctx, j.lastName(), old.ticket); err != nil && !errors.Is(err, stile.ErrGone) {
			return record{}, err
		}
	}
	value := next.tick.UTC().Format(time.RFC3339) + " " + string(next.stage)
	lease, err := j.client.Candidate(j.lastName(), value).TryLock(ctx)
	if errors.Is(err, stile.ErrHeld) {
		return record{}, errOutrun
	} else if err != nil {
		return record{}, err
	}
	next.ticket = lease.Token()
	return next, lease.UnlockAfter(keep)
}
