// Package run is stile run: it holds a lock while CMD runs under a guard, and ends CMD before the lease ends. The verbs that
// run CMD as leader, or at the ticks of a job, use this package too.
//
// Of the other packages of the command it may import claim, flags, guard, proc, speech and store.
package run

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const runLong = `Holds the lock NAME while CMD runs, and ends as CMD does. With several NAMEs it
holds all of them or none. It takes them in the order of the names, so that two
runs that want the same locks cannot deadlock.

CMD gets stdin, stdout and stderr. Its environment has STILE_NAME, STILE_TOKEN (a
number that rises from holder to holder of the name) and STILE_DEADLINE (until when
the lock can be trusted if it is not renewed). With several NAMEs, STILE_NAME_1 and
STILE_TOKEN_1, STILE_NAME_2 and STILE_TOKEN_2, … stand in place of the first two, in
the order of the command line. A stile in CMD uses the same store.

CMD runs in a process group of its own, and stile passes signals on to the group.
When CMD ends, stile also ends the processes that are left in the group, with
SIGTERM and after --grace with SIGKILL. Then it releases the lock.

If the lease cannot be renewed, the group gets SIGTERM while --grace is left, and
SIGKILL before the lease ends. If the claim was removed by hand, or forgotten by
the store, another may hold already: the group gets SIGKILL as soon as stile knows.
A second small process of stile, the parent of CMD, ends the group even when stile
itself is stopped or killed. A process that leaves the group, as daemons do, is
out of reach.`

// DefaultGrace is the default time between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// A Runner is one stile run, or one stile elect.
type Runner struct {
	claim.Want
	Verb                    string
	maxHold, grace, atLeast flags.Duration
}

// New returns the command.
func New(s *store.Store) *cobra.Command {
	r := &Runner{Verb: "run"}
	cmd := &cobra.Command{
		Use: "run NAME… [flags] -- CMD…", Short: "Hold a lock, or several, while a command runs", Long: runLong,
		Example: "  stile run backup --ttl 1m -- /usr/local/bin/backup --full\n" +
			"  stile run accounts/1 accounts/2 -- ./transfer",
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     store.CompleteAllNames(s),
		Args: func(cmd *cobra.Command, args []string) error {
			dash := NameEnd(cmd, args)
			switch {
			case dash < 0 && len(args) > 1:
				return exit.Usage("there is no -- between NAME and CMD; as in: stile run %s -- %s", phrase.Quoted(args[0]),
					phrase.Quoted(args[1]))
			case dash < 1 || len(CmdOf(cmd, args)) == 0:
				return exit.Usage("stile run needs one NAME or more, then --, then CMD; as in: stile run backup -- tar cf backup.tar " +
					"data")
			}
			return flags.CheckNames(args[:dash])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := NameEnd(cmd, args)
			return r.Start(cmd, s, args[:dash], CmdOf(cmd, args))
		},
	}
	r.Flags(cmd.Flags())
	return cmd
}

// NameEnd returns how many arguments are names; less than 0 if there is no --. A name that begins with - needs a -- before
// it and another one after it.
func NameEnd(cmd *cobra.Command, args []string) int {
	if dash := cmd.ArgsLenAtDash(); dash != 0 {
		return dash
	}
	return max(0, slices.Index(args, "--"))
}

// CmdOf returns CMD, with its arguments.
func CmdOf(cmd *cobra.Command, args []string) []string {
	if dash := NameEnd(cmd, args); cmd.ArgsLenAtDash() == 0 && dash > 0 {
		return args[dash+1:]
	}
	return args[max(0, cmd.ArgsLenAtDash()):]
}

// Flags adds the flags of a run.
func (r *Runner) Flags(f *pflag.FlagSet) {
	r.Want.Flags(f)
	f.Var(&r.maxHold, "max-hold", "end CMD after this long with SIGTERM, and exit with 79 (default: never)")
	f.Var(&r.grace, "grace", "time between SIGTERM and SIGKILL (default: 5s, or less with a short --ttl)")
	f.Var(&r.atLeast, "at-least", "keep the lock taken until at least this long after it was acquired")
}

// Start checks the flags and runs CMD.
func (r *Runner) Start(cmd *cobra.Command, s *store.Store, names, argv []string) error {
	if err := r.check(cmd); err != nil {
		return err
	}
	r.Names = names
	return r.run(cmd.Context(), s, argv)
}

// check returns an error if flags do not go together, and sets the grace.
func (r *Runner) check(cmd *cobra.Command) error {
	if err := r.Want.Check(cmd.Flags()); err != nil {
		return err
	}
	if cmd.Flags().Changed("max-hold") && r.maxHold == 0 {
		return exit.Usage("--max-hold 0 leaves CMD no time; leave it out for no limit")
	}
	if !cmd.Flags().Changed("grace") {
		r.grace = min(flags.Duration(DefaultGrace), r.TTL/3)
	}
	if r.atLeast > flags.Duration(driver.MaxTTL) {
		return exit.Usage("--at-least %v is too long: the longest is %v", &r.atLeast, driver.MaxTTL)
	}
	if r.grace > r.TTL/2 {
		return exit.Usage("--grace %v is too long: with --ttl %v it can be at most %v", &r.grace, &r.TTL, time.Duration(r.TTL/2))
	}
	return nil
}

// run acquires the lock, runs CMD under it, and releases it.
func (r *Runner) run(ctx context.Context, s *store.Store, argv []string) error {
	path, address, err := r.found(s, argv[0])
	if err != nil {
		return err
	}
	runtime.UnlockOSThread() // see package early: the guard does not ask to die with this process
	ending.OutliveReaders()
	c, err := NewChild(os.Stdin)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer c.Close()
	signals := ending.Listen(guard.PassedOn)
	events := NewEvents()
	ctx, stop := ending.Until(ctx, signals)
	client, lease, err := r.acquire(ctx, s, events)
	stop()
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return err
	}
	since := boottime.Now()
	if err := context.Cause(ctx); err != nil { // a signal came after the lock was taken
		return errors.Join(err, lease.Unlock())
	}
	k := &Keeper{
		Lease: lease, Child: c, Grace: time.Duration(r.grace),
		Lead: LeadFor(time.Duration(r.TTL)), Since: since,
	}
	deadline := lease.Deadline()
	if r.maxHold != 0 {
		k.Limit = protocol.After(since, time.Duration(r.maxHold))
		if most := time.Now().Add(time.Duration(r.maxHold)); most.Before(deadline) {
			deadline = most
		}
	}
	env, secret, err := Environ(s)
	if err != nil {
		return errors.Join(err, lease.Unlock())
	}
	if secret != "" {
		defer os.Remove(secret) // the guard has removed it, unless the guard was killed
	}
	env = append(env, r.Tell(address, lease, deadline)...)
	k.terminal = newTerminal()
	err = k.Begin(&guard.Program{Path: path, Args: argv, Env: env, Secret: secret, Terminal: k.terminal.begin()}, events)
	if err == nil {
		k.Watch(events, signals)
		c.dismiss()
	}
	k.terminal.giveBack()
	switch {
	case err != nil && k.Why != nil:
		return r.ended(k, lease.Unlock())
	case err != nil:
		return errors.Join(err, lease.Unlock())
	}
	keep := since + time.Duration(r.atLeast) - boottime.Now()
	return r.ended(k, lease.UnlockAfter(max(0, keep)))
}

// found returns the path of CMD's program, and the store's address. It fails if this process or an ancestor has the locks.
func (r *Runner) found(s *store.Store, program string) (path string, address *driver.Address, err error) {
	if path, err = Lookup(program); err != nil {
		return "", nil, err
	}
	if r.Reason == "" {
		r.Reason = phrase.Printable(baseName(program))
	}
	if address, _, err = s.Address(); err != nil {
		return "", nil, err
	}
	return path, address, r.Conflict(address)
}

// Positive returns d, or a very long time if d is 0, which means no limit.
func Positive(d time.Duration) time.Duration {
	if d == 0 {
		return 1<<63 - 1
	}
	return d
}

// acquire opens the store and waits for the lock, and for a lease of full length: a lock that was handed over comes with a
// short lease, which is renewed at once.
func (r *Runner) acquire(ctx context.Context, s *store.Store, e *Events) (*stile.Client, *stile.Lease, error) {
	client, err := r.Open(ctx, s, e.Observe)
	if err != nil {
		return nil, nil, err
	}
	if err := r.keeps(client.Traits()); err != nil {
		r.Drop(client)
		return nil, nil, err
	}
	lease, err := r.Take(ctx, client)
	if err != nil {
		r.Drop(client)
		return nil, nil, err
	}
	if err = Settled(ctx, lease, e, time.Duration(r.grace+r.TTL/10)); err == nil {
		return client, lease, nil
	}
	if ctx.Err() == nil {
		return client, nil, exit.With(exit.Store, errors.Join(err, lease.Unlock()))
	}
	return client, nil, errors.Join(err, lease.Unlock())
}

// keeps returns an error if a store with these traits would not keep the lock for --at-least once this process has ended.
func (r *Runner) keeps(t driver.Traits) error {
	longest := t.MaxTTL
	switch {
	case r.atLeast == 0:
		return nil
	case t.OwnClient:
		return exit.Usage("--at-least: in %s a lock ends with the process that took it, so it cannot stay taken", t.Store)
	case t.InSession:
		longest = t.Session
	}
	if longest > 0 && time.Duration(r.atLeast) > longest {
		return exit.Usage("--at-least %v is too long: %s keeps the lock of a process that has ended for %v at most", &r.atLeast,
			t.Store, longest)
	}
	return nil
}

// ended returns the outcome of the run: the loss of the lock, or CMD's exit status.
func (r *Runner) ended(k *Keeper, released error) error {
	lost := func(err error, then string) error {
		l := &loss{err: bare(err), begun: k.Child.PGID != 0, stood: k.stoodStill(), then: then}
		return exit.With(exit.Lost, &stile.Error{Op: r.Verb, Name: claim.NameIn(err, k.Lease.Name()), Err: l})
	}
	switch _, definite := errors.AsType[*exit.Status](k.Why); {
	case definite:
		return k.Why
	case k.Why != nil && k.Child.PGID == 0:
		return lost(k.Why, "CMD was not begun")
	case k.Why != nil:
		return lost(k.Why, "CMD was ended, with its group")
	case errors.Is(released, stile.ErrLost):
		return lost(released, "CMD had ended by itself, but others may have been at work at the same time")
	case errors.Is(released, stile.ErrUnknown): // the error says until when a claim may stay
		speech.Warn("warning: %v", released)
	case released != nil:
		most := max(r.TTL+r.Delay, r.atLeast)
		speech.Warn("warning: %v; CMD has ended, but others may have to wait for the lock, for %v at most", released, &most)
	}
	switch {
	case k.Status.Signaled():
		return exit.With(exit.Signal+int(k.Status.Signal()), nil)
	case k.Status.ExitStatus() != 0:
		return exit.With(k.Status.ExitStatus(), nil)
	}
	return nil
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
