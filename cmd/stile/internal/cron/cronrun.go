package cron

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/run"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/jobs"
)

// A cronRun runs the command of an entry under the lease of its tick, as stile run would.
type cronRun struct {
	cron  *cron
	entry *entry
}

// work is one run. It returns when CMD's group is gone.
func (r *cronRun) work(ctx context.Context) error {
	lease := stile.FromContext(ctx)
	child, err := run.NewChild(nil)
	if err != nil {
		return err
	}
	defer child.Close()
	events, hangUp := r.cron.events.line(r.entry.name)
	defer hangUp()
	// The lease of a run with a --max-hold is never longer than twice that.
	most := run.Positive(time.Duration(r.entry.maxHold))
	ttl := time.Duration(r.cron.ttl)
	grace := min(run.DefaultGrace, ttl/3, most/2)
	if err := run.Settled(ctx, lease, events, min(grace+ttl/10, most)); err != nil {
		return err
	}
	k := &run.Keeper{Lease: lease, Child: child, Grace: grace, Lead: run.LeadFor(ttl), Since: boottime.Now(),
		Stop: r.cron.ctx.Done()}
	deadline := lease.Deadline()
	if r.entry.maxHold != 0 {
		k.Limit = protocol.After(k.Since, most)
	}
	env, secret, err := r.environ(ctx, lease, deadline)
	if secret != "" {
		defer os.Remove(secret) // the guard has removed it, unless the guard was killed
	}
	if err != nil {
		return err
	}
	r.cron.log.Info("run begins", "job", r.entry.name, "tick", jobs.Tick(ctx).UTC().Format(time.RFC3339), "ticket",
		lease.Ticket())
	program := &guard.Program{Path: r.entry.shell, Args: []string{r.entry.shell, "-c", r.entry.command}, Env: env,
		Secret: secret}
	if err := k.Begin(program, events); err != nil {
		return err
	}
	k.Watch(events, nil)
	if k.Why != nil {
		return k.Why
	}
	return exitText(k.Status)
}

// environ returns the environment of CMD: the environment of stile run, the file's settings, and the tick.
func (r *cronRun) environ(
	ctx context.Context, lease *stile.Lease, deadline time.Time,
) (env []string, secret string, err error) {
	if env, secret, err = run.Environ(r.cron.store); err != nil {
		return nil, secret, err
	}
	const tickVariable = "STILE_TICK"
	env = run.Without(env, tickVariable)
	for _, v := range r.entry.env {
		name, _, _ := strings.Cut(v, "=")
		env = append(run.Without(env, name), v)
	}
	want := &run.Runner{Want: claim.Want{Names: []string{r.entry.name}}}
	env = append(env, want.Tell(r.cron.address, lease, deadline)...)
	return append(env, tickVariable+"="+jobs.Tick(ctx).UTC().Format(time.RFC3339)), secret, nil
}
