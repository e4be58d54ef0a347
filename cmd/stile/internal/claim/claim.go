// Package claim takes the lock that the flags of a verb ask for, and shows meanwhile what it waits for. It refuses a lock
// that an ancestor or this shell holds, since the verb would wait for itself.
//
// Of the other packages of the command it may import flags, grant, page, proc, speech, store and tty.
package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
)

// A Want is the lock that the flags ask for.
type Want struct {
	Names          []string // all of them or none
	TTL, wait      flags.Duration
	Delay          flags.Duration // --lock-delay
	reclaim        bool
	try, read      bool
	permits, of    int
	owner, Reason  string
	Value          string // a candidate's value; "" otherwise
	Candidate      bool
	waitSet, ofSet bool
	busy           int // the exit status if the lock is not taken in time
	view           *waitView
}

// Tokens is the number of tokens of one claim. Its ticket is the first.
const Tokens = 1 << 10

// DefaultTTL is the default for how long a lock outlives its process.
const DefaultTTL = 15 * time.Second

// Flags adds the flags that describe the wanted lock.
func (w *Want) Flags(f *pflag.FlagSet) {
	w.TTL = flags.Duration(DefaultTTL)
	f.Var(&w.TTL, "ttl", "how long the lock outlives this process if it dies")
	f.Var(&w.wait, "wait", "how long to wait for the lock (default: for ever)")
	f.BoolVar(&w.try, "try", false, "do not wait")
	f.IntVarP(&w.busy, "conflict-exit-code", "E", exit.Held, "the exit status if the lock is held, or not acquired in time")
	f.StringVar(&w.owner, "owner", "", "who wants the lock, for people to read")
	f.StringVar(&w.Reason, "reason", "", "why, for people to read")
	f.Var(&w.Delay, "lock-delay",
		"if the lock is lost, keep others out for this long more, since work may still run (default: none)")
	f.BoolVar(&w.reclaim, "reclaim", false, "remove the claim of an earlier run with the same --owner, which must have ended")
	if w.Candidate {
		f.StringVar(&w.Value, "value", "", "what others see of the leader, such as its address (default: the host's name)")
		return
	}
	f.BoolVar(&w.read, "read", false, "share the lock with others that read")
	f.IntVar(&w.permits, "permits", 1, "how many permits of --of to take, all at once")
	f.IntVar(&w.of, "of", 0, "how many permits the name has: everybody must give the same number")
}

// Check returns an error if flags do not go together.
func (w *Want) Check(f *pflag.FlagSet) error {
	w.waitSet, w.ofSet = f.Changed("wait"), f.Changed("of")
	switch {
	case w.try && w.waitSet:
		return exit.Usage("--try does not wait: give either --try or --wait")
	case f.Changed("permits") && !w.ofSet:
		return exit.Usage("--permits needs --of, the number of permits that the name has")
	case w.ofSet && w.of < 1:
		return exit.Usage("--of %d: it is how many permits the name has, one at least", w.of)
	case w.read && w.ofSet:
		return exit.Usage("--read does not go with --permits and --of: readers share without limit")
	case w.reclaim && w.owner == "":
		return exit.Usage("--reclaim needs --owner, the name of the job by which its earlier run is known")
	case w.Delay > flags.Duration(driver.MaxTTL):
		return exit.Usage("--lock-delay %v is too long: the longest is %v", &w.Delay, driver.MaxTTL)
	case w.TTL == 0:
		return exit.Usage("--ttl 0 is too short: a lease needs time to be renewed; the default is %v", DefaultTTL)
	}
	return CheckBusy(w.busy)
}

// CheckBusy refuses numbers that are no exit status.
func CheckBusy(status int) error {
	if status < 0 || status > 255 {
		return exit.Usage("--conflict-exit-code %d: an exit status is from 0 to 255", status)
	}
	return nil
}

// lock returns the wanted lock, which may have several names.
func (w *Want) lock(c *stile.Client) *stile.Lock {
	if len(w.Names) == 1 {
		return w.part(c, w.Names[0])
	}
	var parts []*stile.Lock
	for _, name := range w.Names {
		parts = append(parts, w.part(c, name))
	}
	return stile.Join(parts...)
}

func (w *Want) part(c *stile.Client, name string) *stile.Lock {
	l := c.Mutex(name)
	switch {
	case w.Candidate:
		l = c.Candidate(name, w.Value)
	case w.read:
		l = c.Reader(name)
	case w.ofSet:
		l = c.Permit(name, w.permits, w.of)
	}
	return l.With(stile.LockOptions{
		TTL: time.Duration(w.TTL), LockDelay: time.Duration(w.Delay), Owner: w.owner, Reclaim: w.reclaim, Reason: w.Reason,
	})
}

// Slack is half of the extra time that --wait 1m may take if the store does not answer.
const Slack = 500 * time.Millisecond

// Open opens the store, for no longer than --wait allows, and returns how much of that time is left.
func (w *Want) Open(ctx context.Context, s *store.Store, observer stile.Observer) (*stile.Client, error) {
	s.TTL = time.Duration(w.TTL)
	w.view = newWaitView(w.Names, time.Duration(w.wait))
	observer = w.view.beside(observer)
	if !w.waitSet {
		return s.Open(ctx, observer)
	}
	begun := time.Now()
	within, cancel := context.WithTimeoutCause(ctx, time.Duration(w.wait)+Slack, store.ErrSilent)
	defer cancel()
	c, err := s.Open(within, observer)
	if spent := time.Since(begun).Round(Slack / 5); spent >= Slack { // less is not worth a message with an odd time
		w.wait = max(0, w.wait-flags.Duration(spent))
	}
	return c, err
}

// Drop closes a client that has no lock, within the time that --wait allows.
func (w *Want) Drop(c *stile.Client) {
	done := make(chan struct{})
	go func() {
		c.Close()
		close(done)
	}()
	var late <-chan time.Time
	if w.waitSet {
		late = time.After(Slack)
	}
	select {
	case <-done:
	case <-late: // remains in the store run out
	}
}

// Take waits for the lock as long as --wait says.
func (w *Want) Take(ctx context.Context, c *stile.Client) (*stile.Lease, error) {
	var (
		l     = w.lock(c)
		lease *stile.Lease
		err   error
	)
	switch {
	case w.try:
		lease, err = l.TryLock(ctx)
	case w.waitSet:
		lease, err = w.view.watchfully(ctx, c, func() (*stile.Lease, error) { return l.LockWithin(ctx, time.Duration(w.wait)) })
	default:
		lease, err = w.view.watchfully(ctx, c, func() (*stile.Lease, error) { return l.Lock(ctx) })
	}
	if errors.Is(err, stile.ErrLost) {
		return nil, exit.With(w.busy,
			fmt.Errorf("lock %q: the claim was lost while it waited: %s", NameIn(err, w.Names[0]), speech.WhyLost(err, 0)))
	}
	if errors.Is(err, stile.ErrHeld) {
		return nil, exit.With(w.busy, err)
	}
	return lease, err
}

// NameIn returns the name that an error of the library is about, if the error names one of several.
func NameIn(err error, otherwise string) string {
	if e, ok := errors.AsType[*stile.Error](err); ok && e.Name != "" {
		return e.Name
	}
	return otherwise
}
