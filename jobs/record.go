package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	holder "github.com/stilelock/stile/internal/record"
)

// longest returns how long a store can keep a claim.
func longest(t driver.Traits) time.Duration {
	return min(cmp.Or(t.MaxTTL, driver.MaxTTL), driver.MaxTTL)
}

// A stage is the machine's knowledge of a tick:
//
//	unknown ──► started ──► over
//
// A run that dies leaves its tick started. Only remember moves it on.
type stage string

const (
	unknown stage = ""        // no record, or the record has run out
	started stage = "started" // its run is in progress, or was cut off
	over    stage = "over"    // its run has returned
)

// A Past is the store's record of a job: the last tick that any machine has begun.
type Past struct {
	Tick    time.Time     // zero if there is no record
	Over    bool          // its run has returned; otherwise it is in progress or was cut off
	Outcome Outcome       // of a run that is over
	Err     string        // the run's error, up to 2 KiB, as far as the record has room
	Took    time.Duration // duration of the run; 0 until it is over
	Ticket  int64         // Lease.Ticket of the run
	Next    time.Time     // the tick after it, by the schedule of the machine that ran; zero if there is none
	By      stile.Holder  // that machine
}

// Last returns the store's record of a job by its name. If there is none, Past.Tick is zero. The store keeps the record
// while a program runs the job, and for 24 hours after that, or on Redlock for a minute.
func Last(ctx context.Context, client *stile.Client, name string) (Past, error) {
	r, err := recall(ctx, client, name)
	return Past{
		Tick: r.Tick, Over: r.Stage == over, Outcome: r.Outcome, Err: r.Err, Took: time.Duration(r.Took * float64(time.Second)),
		Ticket: r.Ticket, Next: r.Next, By: r.by,
	}, err
}

// A record is the last tick that any machine has begun. It is the value of two claims that nobody renews: on name/copy, and
// on name/last, which counts while it exists. A claim of another machine cannot be replaced in one step. So the record moves
// in steps that leave it in one of the two places at each moment; the package comment draws them.
type record struct {
	memo
	tickets [2]int64      // the tickets of the claims with the record, by places; 0 means none
	age     time.Duration // of the claim that counts
	by      stile.Holder  // the machine that ran
}

// places returns the names of a job's record; the second counts, unless it has none.
func places(job string) [2]string { return [2]string{job + "/copy", lastName(job)} }

// A memo is a record as the store has it, in JSON.
type memo struct {
	Tick    time.Time `json:"tick"`
	Stage   stage     `json:"stage"`
	Next    time.Time `json:"next,omitzero"`
	Ticket  int64     `json:"token,string"`
	Outcome Outcome   `json:"outcome,omitempty"`
	Took    float64   `json:"took,omitempty"` // seconds
	Err     string    `json:"error,omitempty"`

	By *stile.Holder `json:"by,omitempty"` // the machine that ran, if another machine wrote the record again
}

// begun returns the record of a tick whose run begins.
func (j *Job) begun(tick time.Time, token int64) record {
	return record{memo: memo{Tick: tick.UTC(), Stage: started, Next: j.schedule.next(tick), Ticket: token}}
}

// ended returns the record of a tick whose run has returned.
func (r record) ended(by Result) record {
	r.By = nil
	r.Stage, r.Outcome, r.Took = over, by.Outcome, by.Took.Seconds()
	if by.Err != nil {
		r.Err = cut(by.Err.Error(), mostText)
	}
	return r
}

// mostText bounds the kept text of an error, in bytes.
const mostText = 2048

// cut shortens a text to at most this many bytes in JSON.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text[:min(len(text), most)], "")
	for quoted, err := json.Marshal(text); err == nil && len(quoted) > most+2; quoted, err = json.Marshal(text) {
		text = strings.ToValidUTF8(text[:len(text)-(len(quoted)-most)/6-1], "")
	}
	return text
}

// errOutrun says that another machine has run the job meanwhile.
var errOutrun = fmt.Errorf("%w: another machine has gone on with the job", stile.ErrLost)

func lastName(job string) string { return job + "/last" }

// recall reads the record. A record that is further ahead of the clock than another machine can be is an error: no tick
// would run until then. No machine writes such a record again.
func (j *Job) recall(ctx context.Context) (record, error) {
	r, err := recall(ctx, j.client, j.name)
	if err != nil {
		return record{}, err
	}
	now := time.Now()
	most := now.Add(time.Minute)
	if tick := j.schedule.next(most); !tick.IsZero() {
		most = tick
	}
	if r.Tick.After(most) {
		var cure []string
		for i, place := range places(j.name) {
			if r.tickets[i] != 0 {
				cure = append(cure, fmt.Sprintf("stile break %s --reason clock --yes", place))
			}
		}
		return record{}, fmt.Errorf("the record says that the tick of %s has begun on %v, and that is in %v: "+
			"if the clock there was wrong, set it, and remove the record with %s; it is forgotten in %v otherwise",
			r.Tick.Format(time.RFC3339), r.by, r.Tick.Sub(now).Round(time.Second), strings.Join(cure, " and "), retention(j.client))
	}
	return r, nil
}

// recall reads the record. If neither place has it, it may have been written to the first place after that place was read,
// so the first is read again.
func recall(ctx context.Context, client *stile.Client, job string) (r record, err error) {
	var tickets [2]int64
	for look, i := range [...]int{0, 1, 0} {
		if look == 2 && !r.Tick.IsZero() {
			break
		}
		at, ticket, err := read(ctx, client, places(job)[i])
		if err != nil {
			return record{}, err
		}
		if tickets[i] = ticket; ticket != 0 {
			r = at
		}
	}
	r.tickets = tickets
	return r, nil
}

// read reads the record of one name, and the ticket of its claim; 0 if there is none.
func read(ctx context.Context, client *stile.Client, name string) (record, int64, error) {
	q, err := client.Show(ctx, name)
	if err != nil {
		return record{}, 0, err
	}
	for _, c := range q.Claims {
		if !c.Holds {
			continue
		}
		r := record{age: c.Since, by: c.Holder}
		if err := json.Unmarshal([]byte(c.Holder.Value), &r.memo); err != nil || r.Tick.IsZero() || r.Stage != started && r.Stage != over {
			return record{}, 0, fmt.Errorf("%w: %q holds %q, which is no tick of a job: it is used for something else",
				stile.ErrForeign, name, c.Holder.Value)
		}
		if r.By != nil {
			r.by = *r.By
		}
		r.by.Value = ""
		return r, c.Ticket, nil
	}
	return record{}, 0, nil
}

// remember replaces the record that was read by the next one. The caller has the job's lock. A machine that has lost the
// lock without knowing replaces nothing: it names the claims that it read, and a later machine has replaced these.
func (j *Job) remember(ctx context.Context, old, next record) (record, error) {
	counts := 1 // the place that counts is written last
	if old.tickets[0] != 0 && old.tickets[1] == 0 {
		counts = 0
	}
	for _, i := range [2]int{1 - counts, counts} {
		var err error
		if next.tickets[i], err = j.replace(ctx, places(j.name)[i], old.tickets[i], next.memo); err != nil {
			return record{}, err
		}
	}
	return next, nil
}

// keeping returns the lock whose claim keeps a value. The record may lack room for all of these texts and the client's owner
// and reason; then keeping shortens the longest first.
func keeping(client *stile.Client, name string, value func() string, texts ...*string) *stile.Lock {
	o := client.Mutex(name).Options()
	texts = append(texts, &o.Owner, &o.Reason)
	for {
		is := value()
		_, err := holder.Write(o.Owner, o.Reason, is, o.TTL) // the record is JSON in JSON, so only writing it shows its length
		long := slices.MaxFunc(texts, func(a, b *string) int { return len(*a) - len(*b) })
		if err == nil || *long == "" {
			return client.Candidate(name, is).WithOnly(o)
		}
		*long = strings.ToValidUTF8((*long)[:len(*long)*15/16], "")
	}
}

// lock returns the lock whose claim keeps the memo under a name.
func (m memo) lock(client *stile.Client, name string) *stile.Lock {
	texts := []*string{&m.Err}
	if m.By != nil {
		by := *m.By
		m.By = &by
		texts = append(texts, &by.Owner, &by.Reason)
	}
	return keeping(client, name, func() string {
		text, _ := json.Marshal(m) // texts, numbers and a schedule's times can always be encoded
		return string(text)
	}, texts...)
}

// replace replaces the claim of a name by one that the store keeps, and returns its ticket.
func (j *Job) replace(ctx context.Context, name string, old int64, m memo) (int64, error) {
	if old != 0 {
		// A missing claim has run out or was replaced. The next step finds out which.
		if _, err := j.client.Break(ctx, name, stile.BreakOptions{Ticket: old}); err != nil && !errors.Is(err, stile.ErrGone) {
			return 0, err
		}
	}
	lease, err := m.lock(j.client, name).TryLock(ctx)
	if errors.Is(err, stile.ErrHeld) {
		return 0, errOutrun
	} else if err != nil {
		return 0, err
	}
	return lease.Ticket(), lease.UnlockAfter(retention(j.client))
}
