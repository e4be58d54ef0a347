// Package trial is the verbs that examine a store: doctor reports its promises, prove tests them under faults, and bench
// measures its speed.
//
// Of the other packages of the command it may import bench, flags, page, prove, reserve, speech and store.
package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
)

const doctorLong = `Asks the store what it can promise as it is set up now: what locks it has, what
claims and tokens survive, how long a round trip takes, and which settings
take a promise away, with what to set instead.

It only reads, and then says what it did not try. With --probe it also takes a
lock of its own, whose name nobody else uses, and releases it: that shows whether
the rights are there, how long a lock takes, and how the store's clock runs.

--require ends with status 2 if the store lacks one of the traits.

Exit status: 0 if all is well, 1 with warnings, 2 if two could hold one lock while
nothing fails, or if a required trait is missing.`

// The statuses of stile doctor.
const (
	Warnings = 1
	Unfit    = 2
)

// An examination is one stile doctor.
type examination struct {
	require []string
	probe   bool
	json    bool
}

// Doctor returns the command.
func Doctor(s *store.Store) *cobra.Command {
	e := &examination{}
	cmd := &cobra.Command{
		Use: "doctor [URL]", Short: "Show what the store can promise, and what to set", Long: doctorLong,
		Example: "  stile doctor redis://localhost\n  stile doctor --probe --require fencing,failover",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return exit.Usage("stile doctor takes one URL at most, and got %d", len(args))
			case len(args) == 1 && s.Given():
				return exit.Usage("stile doctor takes one URL, and got two: by --url and as an argument")
			case len(args) == 1 && args[0] == "":
				return exit.Usage("URL is empty: it is the URL of a store; leave it out for the store of %s, or the default one",
					store.URLVariable)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.URL = args[0]
			}
			if cmd.Flags().Changed("require") && len(e.require) == 0 {
				return exit.Usage("--require is empty: it takes %s", words(driver.Requirable()))
			}
			if err := driver.CheckTraits(e.required()...); err != nil {
				return exit.Usage("--require: %w", err)
			}
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			r, err := e.examine(ctx, s)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if e.json {
				err = answer.JSON(out, r.view(), "  ")
			} else {
				err = r.write(out)
			}
			if err == nil && r.status() != 0 {
				err = exit.With(r.status(), nil)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&e.require, "require", nil,
		"traits that the store must have, with commas between: "+words(driver.Requirable()))
	f.BoolVar(&e.probe, "probe", false, "take a lock of its own, and release it")
	f.BoolVar(&e.json, "json", false, "print one JSON value")
	return cmd
}

func words(traits []driver.Trait) string {
	all := make([]string, len(traits))
	for i, t := range traits {
		all[i] = string(t)
	}
	return strings.Join(all, ", ")
}

func (e *examination) required() []driver.Trait {
	traits := make([]driver.Trait, len(e.require))
	for i, word := range e.require {
		traits[i] = driver.Trait(word)
	}
	return traits
}

const (
	looksMost = 100             // reads that are timed
	locksMost = 20              // locks that are timed
	timedFor  = 2 * time.Second // at most, for reads and for locks each
	clockFor  = time.Second     // how long the store's clock is watched
	probeTTL  = 10 * time.Second
	probeWait = 10 * time.Second // for a lock that nobody else uses
)

// examine opens the store and asks it.
func (e *examination) examine(ctx context.Context, s *store.Store) (*report, error) {
	open := s.Look
	if e.probe {
		open = func(ctx context.Context) (*stile.Client, error) { return s.Open(ctx, nil) }
	}
	c, err := open(ctx)
	if errors.Is(err, store.ErrNone) {
		return nil, exit.Usage("the default store has not been made: the first lock makes it, or stile doctor --probe")
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	name := "stile-doctor-" + rand.Text()
	reads, err := timed(ctx, looksMost, func() error {
		_, err := c.Show(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &report{reads: reads}
	a, _, err := s.Address()
	if err != nil {
		return nil, err
	}
	r.services = services(ctx, a)
	if e.probe {
		if r.probe, err = tryLocks(ctx, c, name); err != nil {
			return nil, err
		}
	}
	r.traits = c.Traits() // again, since the probe may have changed them
	r.lacking = r.traits.Lacks(e.required()...)
	return r, nil
}

// timed calls a function a few times, for a bounded time, and returns the durations, the shortest first.
func timed(ctx context.Context, most int, do func() error) (took []time.Duration, err error) {
	for begun := time.Now(); len(took) < most && time.Since(begun) < timedFor; {
		start := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	slices.Sort(took)
	return took, nil
}

// A probing has the findings from taking locks.
type probing struct {
	locks []time.Duration // of each lock and unlock, the shortest first
	rose  bool            // each token was larger than the one before
	drift time.Duration   // how much farther the store's clock went than this machine's; 0 if the store does not report it
	vague time.Duration   // by how much drift may be wrong: each look took a while
	told  bool            // the store returns the rest of a lease
	step  time.Duration   // a second, if the store returns the rest in whole seconds
}

// tryLocks takes a lock that nobody else uses, and releases it.
func tryLocks(ctx context.Context, c *stile.Client, name string) (*probing, error) {
	p, last := &probing{rose: true}, int64(0)
	ttl := min(max(probeTTL, c.Traits().MinTTL), c.Traits().MaxTTL)
	lock := c.Mutex(name).With(stile.LockOptions{TTL: ttl, Owner: "stile doctor", Reason: "to see whether locks can be had"})
	var err error
	p.locks, err = timed(ctx, locksMost, func() error {
		lease, err := lock.LockWithin(ctx, probeWait)
		if err != nil {
			return err
		}
		p.rose = p.rose && lease.Token() > last
		last = lease.Token()
		return lease.Unlock()
	})
	if err != nil {
		return nil, err
	}
	if clock := c.Traits().Clock; clock != "server" && clock != "host" {
		return p, nil // the session's lease is not the claim's
	}
	return p, p.watch(ctx, c, lock)
}

// watch measures the speed of the store's clock, by the rest of a lease that is not renewed in that time.
func (p *probing) watch(ctx context.Context, c *stile.Client, lock *stile.Lock) error {
	lease, err := lock.LockWithin(ctx, probeWait)
	if err != nil {
		return err
	}
	defer lease.Unlock() //nolint:errcheck // the last use of a name that nobody else uses
	found := *p          // by the last watch without a renewal
	for range 3 {
		trusted := lease.Deadline()
		if err := p.watchOnce(ctx, c, lock); err != nil {
			return err
		}
		// A client that begins to listen for a break makes a renewal, and a lock service another one, which its client does not see.
		if lease.Deadline().Sub(trusted) >= clockFor/10 {
			continue
		}
		if found = *p; !p.strays(c.Traits().Granularity) {
			break
		}
	}
	*p = found
	return nil
}

// strays reports whether the store's clock went farther than this machine's, or less far, by more than the looks are wrong by.
func (p *probing) strays(granularity time.Duration) bool {
	return p.told && p.drift.Abs() > stepMost+p.vague+2*max(granularity, p.step)
}

// watchOnce looks at a lease twice.
func (p *probing) watchOnce(ctx context.Context, c *stile.Client, lock *stile.Lock) error {
	p.told, p.vague = false, 0
	remaining := func() (left time.Duration, at time.Time, err error) {
		begun := time.Now()
		q, err := c.Show(ctx, lock.Name())
		if err != nil || len(q.Claims) == 0 {
			return 0, at, err
		}
		half := time.Since(begun) / 2
		p.vague += half
		return q.Claims[0].Remaining, begun.Add(half), nil
	}
	first, begun, err := remaining()
	if err != nil || first <= 0 {
		return err
	}
	select {
	case <-time.After(clockFor):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	second, ended, err := remaining()
	if err != nil || second <= 0 {
		return err
	}
	if first%time.Second == 0 && second%time.Second == 0 {
		p.step = time.Second
	}
	p.told, p.drift = true, (first-second)-ended.Sub(begun)
	return nil
}
