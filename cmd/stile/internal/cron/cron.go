// Package cron is stile cron: the jobs of a crontab, each tick once over all machines.
//
// Of the other packages of the command it may import claim, flags, guard, run, speech and store.
package cron

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/run"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/jobs"
)

const cronLong = `Runs the jobs of FILE at their ticks. Each tick runs once over all machines that
use the same FILE and the same store. stile cron goes on until it gets SIGTERM,
SIGINT or SIGQUIT. A line of FILE is a comment, a variable for the commands, or

  SCHEDULE NAME [flags] -- CMD

  CRON_TZ=Europe/Berlin
  0 3 * * *   nightly --at-least 10m --max-hold 6h --missed once -- figures --all
  @every 5m   poll -- poll-orders | tee -a /var/log/orders

SCHEDULE is a cron expression of five fields, @daily and the like, or @every with
a duration. Its time zone is CRON_TZ, or else UTC. NAME is the name of the lock that
a run holds. CMD is the rest of the line, and runs under /bin/sh or the SHELL that
FILE sets. It gets STILE_NAME, STILE_TOKEN, STILE_DEADLINE, and STILE_TICK, the time
of its tick. As under stile run, CMD ends before its lease ends. If somebody broke
its claim by hand, or the store forgot it, CMD ends a moment after that.

  --at-least D   keep the lock this long, against clocks that differ
  --max-hold D   end CMD after this long
  --jitter D     delay each tick by a random time up to D
  --missed W     ticks without a run: skip them, run the last once, or all

On SIGHUP it reads FILE again. If FILE is wrong, it says so and changes nothing.
If a job is gone or changed, its present run goes on to its end. SIGTERM also ends
the runs: CMD gets SIGTERM, and SIGKILL 5s later, or after a third of --ttl if that
is sooner. Then stile exits with 0.`

// A cron is one stile cron.
type cron struct {
	path    string
	ttl     flags.Duration
	store   *store.Store
	address *driver.Address
	client  *stile.Client
	events  *switchboard
	log     *slog.Logger

	ctx   context.Context
	fail  context.CancelCauseFunc // called by a job that cannot go on
	tasks map[string]*task
	ended map[string]<-chan struct{} // by name: closed when the last removed task has ended
	all   sync.WaitGroup
}

// A task is a job that runs here.
type task struct {
	entry  *entry
	finish context.CancelCauseFunc
	done   chan struct{}
}

// New returns the command.
func New(s *store.Store) *cobra.Command {
	var check bool
	c := &cron{store: s, tasks: map[string]*task{}, ended: map[string]<-chan struct{}{}, ttl: flags.Duration(claim.DefaultTTL)}
	cmd := &cobra.Command{
		Use: "cron FILE", Short: "Run the jobs of a crontab, each tick once over many machines", Long: cronLong,
		Example: "  stile cron /etc/stile/crontab --url redis://locks.internal\n  stile cron crontab --check",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("stile cron needs one FILE, and got %d; as in: stile cron /etc/stile/crontab", len(args))
			}
			if args[0] == "" {
				return exit.Usage("FILE is empty: it is the file with the jobs; as in: stile cron /etc/stile/crontab")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.ttl < flags.Duration(100*time.Millisecond) || c.ttl > flags.Duration(driver.MaxTTL) {
				return exit.Usage("--ttl %v: it must be from 100ms to 24h", time.Duration(c.ttl))
			}
			c.path = args[0]
			if !check {
				return c.run(cmd.Context())
			}
			return ending.Interruptible(cmd.Context(), ending.Listen(ending.Signals), func(ctx context.Context) error {
				entries, err := c.read(ctx)
				if err != nil {
					return err
				}
				return printNext(cmd.OutOrStdout(), entries)
			})
		},
	}
	cmd.Flags().Var(&c.ttl, "ttl", "how long the lock of a run outlives this process if it dies")
	cmd.Flags().BoolVar(&check, "check", false, "only read FILE, and print when the next tick of each job is")
	return cmd
}

// printNext prints the next tick of each job.
func printNext(w io.Writer, entries []*entry) error {
	c, err := store.Nothing(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	var rows [][]string
	for _, e := range entries {
		j, err := e.job(c, func(context.Context) error { return nil }, nil)
		if err != nil {
			return err
		}
		rows = append(rows, []string{e.name, j.Next(time.Now()).UTC().Format(time.RFC3339), e.schedule, e.command})
	}
	return answer.Table(w, "NAME\tNEXT\tSCHEDULE\tCMD", rows)
}

// cronEnding are the signals that end a stile cron. After SIGHUP it reads its file again, even if the signal comes while the
// store is being opened.
var cronEnding = slices.DeleteFunc(slices.Clone(ending.Signals), func(s syscall.Signal) bool { return s == syscall.SIGHUP })

func (c *cron) run(ctx context.Context) (err error) {
	least := slog.LevelInfo
	switch speech.Current {
	case speech.Verbose:
		least = slog.LevelDebug
	case speech.Quiet:
		least = slog.LevelWarn
	}
	ending.OutliveReaders()
	c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: least}))
	signals, reloads := ending.Listen(cronEnding), ending.Listen([]syscall.Signal{syscall.SIGHUP})
	defer run.AdoptOrphans()()
	c.events = &switchboard{lines: map[string]*run.Events{}}
	var entries []*entry
	if err := ending.Interruptible(ctx, signals, func(ctx context.Context) (err error) {
		entries, err = c.read(ctx)
		return err
	}); err != nil {
		return err
	}
	if c.address, _, err = c.store.Address(); err != nil {
		return err
	}
	c.store.TTL, c.store.Every.TTL = time.Duration(c.ttl), time.Duration(c.ttl)
	err = ending.Interruptible(ctx, signals, func(ctx context.Context) (err error) {
		c.client, err = c.store.Open(ctx, c.events.observe)
		return err
	})
	if c.client != nil {
		defer c.client.Close()
	}
	if err != nil {
		return err
	}
	if t := c.client.Traits(); time.Duration(c.ttl) < t.MinTTL || time.Duration(c.ttl) > t.MaxTTL {
		return exit.Usage("--ttl %v: in %s it must be from %v to %v", time.Duration(c.ttl), c.address, t.MinTTL, t.MaxTTL)
	}
	ctx, c.fail = context.WithCancelCause(ctx)
	defer c.fail(nil)
	c.ctx = ctx
	if err := c.apply(entries); err != nil {
		return err
	}
	defer c.all.Wait()
	defer c.fail(nil)
	c.log.Info("jobs wait for their ticks", "file", c.path, "jobs", len(entries), "store", phrase.OneLine(c.address.String()))
	var again <-chan reading
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-signals:
			c.log.Info("ends, as it was asked to", "signal", s.String())
			return nil
		case <-reloads:
			again = c.begun() // drops an earlier reading that is still under way
		case r := <-again:
			c.reload(r)
		}
	}
}

// A reading is the outcome of reading the file.
type reading struct {
	entries []*entry
	err     error
}

// begun reads the file. That may take for ever, for example from a pipe, or over a lost network.
func (c *cron) begun() <-chan reading {
	done := make(chan reading, 1)
	go func() {
		entries, err := readCrontab(c.path)
		done <- reading{entries, err}
	}()
	return done
}

// read reads the file for the first time. A file without jobs is then a mistake.
func (c *cron) read(ctx context.Context) ([]*entry, error) {
	select {
	case r := <-c.begun():
		if r.err == nil && len(r.entries) == 0 {
			r.err = exit.Usage("%s has no jobs; a line is: SCHEDULE NAME [flags] -- CMD, as in: 0 3 * * * nightly -- nightly-figures",
				c.path)
		}
		return r.entries, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reload takes over the file that was read again. A wrong file changes nothing. A file without jobs ends all jobs.
func (c *cron) reload(r reading) {
	err := r.err
	if err == nil {
		err = c.apply(r.entries)
	}
	if err != nil {
		c.log.Error("the file is wrong, and the jobs go on as before", "err", phrase.OneLine(err.Error()))
		return
	}
	c.log.Info("read the file again", "file", c.path, "jobs", len(r.entries))
}

// apply runs these jobs and no others. If a job was removed or changed, its current run goes on to its end.
func (c *cron) apply(entries []*entry) error {
	made := map[string]*jobs.Job{}
	for _, e := range entries {
		j, err := e.job(c.client, (&cronRun{cron: c, entry: e}).work, c.report)
		if err != nil {
			return e.wrong(c.path, err)
		}
		made[e.name] = j
	}
	for name, t := range c.tasks {
		if i := indexOf(entries, name); i >= 0 && entries[i].same(t.entry) {
			continue
		}
		t.finish(jobs.ErrFinish)
		c.ended[name] = t.done // also for a job that comes back with a later file
		delete(c.tasks, name)
	}
	for _, e := range entries {
		if c.tasks[e.name] == nil {
			c.begin(e, made[e.name], c.ended[e.name])
		}
	}
	return nil
}

func indexOf(entries []*entry, name string) int {
	for i, e := range entries {
		if e.name == name {
			return i
		}
	}
	return -1
}

// begin runs a job at its ticks, once its predecessor has ended.
func (c *cron) begin(e *entry, j *jobs.Job, before <-chan struct{}) {
	ctx, finish := context.WithCancelCause(c.ctx)
	t := &task{entry: e, finish: finish, done: make(chan struct{})}
	c.tasks[e.name] = t
	c.all.Go(func() {
		defer close(t.done)
		if before != nil {
			<-before
		}
		if err := j.Run(ctx); ctx.Err() == nil {
			c.fail(err) // each tick would fail in the same way
		}
	})
}

// report logs the outcome of a tick.
func (c *cron) report(r jobs.Result) {
	level, text := slog.LevelInfo, "run "+string(r.Outcome)
	attributes := []any{"job", r.Job}
	if !r.Tick.IsZero() {
		attributes = append(attributes, "tick", r.Tick.UTC().Format(time.RFC3339))
	}
	switch r.Outcome {
	case jobs.Elsewhere:
		level, text = slog.LevelDebug, "another machine has it"
	case jobs.Late:
		level, text = slog.LevelWarn, "too late for the tick, which is left out"
	case jobs.Trouble:
		level, text = slog.LevelError, "the store did not say whether the job may run here"
	case jobs.Failed, jobs.Panicked, jobs.CutOff:
		level = slog.LevelError
	case jobs.Done, jobs.Stopped:
	}
	if r.Ticket != 0 {
		attributes = append(attributes, "ticket", r.Ticket, "took", phrase.Rounded(r.Took))
	}
	if r.Err != nil {
		attributes = append(attributes, "err", phrase.OneLine(r.Err.Error()))
	}
	c.log.Log(c.ctx, level, text, attributes...)
}

// A switchboard passes the client's events about leases on to the keeper of each lease.
type switchboard struct {
	mu    sync.Mutex
	lines map[string]*run.Events // by name
}

func (b *switchboard) observe(event stile.Event) {
	b.mu.Lock()
	line := b.lines[event.Name]
	b.mu.Unlock()
	if line != nil {
		line.Observe(event)
	}
}

// line returns the events of a name, until it is closed.
func (b *switchboard) line(name string) (e *run.Events, close func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e = run.NewEvents()
	b.lines[name] = e
	return e, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.lines, name)
	}
}

// exitText returns the exit of a CMD as an error, or nil.
func exitText(w syscall.WaitStatus) error {
	switch {
	case w.Signaled():
		return fmt.Errorf("CMD was killed by signal %d (%v)", w.Signal(), w.Signal())
	case w.ExitStatus() != 0:
		return fmt.Errorf("CMD ended with status %d", w.ExitStatus())
	}
	return nil
}
