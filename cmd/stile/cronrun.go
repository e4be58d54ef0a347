package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/jobs"
)

// A cronRun runs the command of an entry under the lease of its tick, as stile run would.
type cronRun struct {
	cron  *cron
	entry *entry
}

// work is one run. It returns when nothing is left of CMD's group.
func (r *cronRun) work(ctx context.Context) error {
	lease := stile.FromContext(ctx)
	child, err := newChild(nil)
	if err != nil {
		return err
	}
	defer child.close()
	events, hangUp := r.cron.events.line(r.entry.name)
	defer hangUp()
	// The lease of a run with a --max-hold is never longer than twice that.
	most := positive(time.Duration(r.entry.maxHold))
	ttl := time.Duration(r.cron.ttl)
	grace := min(defaultGrace, ttl/3, most/2)
	if err := settled(ctx, lease, events, min(grace+ttl/10, most)); err != nil {
		return err
	}
	k := &keeper{lease: lease, child: child, grace: grace, lead: leadFor(ttl), since: boottime.Now(), stop: r.cron.ctx.Done()}
	deadline := lease.Deadline()
	if r.entry.maxHold != 0 {
		k.limit = protocol.After(k.since, most)
	}
	env, secret, err := r.environ(ctx, lease, deadline)
	if secret != "" {
		defer os.Remove(secret) // the guard has removed it, unless that was killed
	}
	if err != nil {
		return err
	}
	r.cron.log.Info("run begins", "job", r.entry.name, "tick", jobs.Tick(ctx).UTC().Format(time.RFC3339), "ticket", lease.Ticket())
	program := &guard.Program{Path: r.entry.shell, Args: []string{r.entry.shell, "-c", r.entry.command}, Env: env, Secret: secret}
	if err := k.begin(program, events); err != nil {
		return err
	}
	k.watch(events, nil)
	if k.why != nil {
		return k.why
	}
	return exitText(k.status)
}

// environ returns the environment of CMD: that of stile run, with what the file sets, and the tick.
func (r *cronRun) environ(ctx context.Context, lease *stile.Lease, deadline time.Time) (env []string, secret string, err error) {
	if env, secret, err = environ(r.cron.store); err != nil {
		return nil, secret, err
	}
	const tickVariable = "STILE_TICK"
	env = without(env, tickVariable)
	for _, v := range r.entry.env {
		name, _, _ := strings.Cut(v, "=")
		env = append(without(env, name), v)
	}
	wish := &runner{wish: wish{names: []string{r.entry.name}}}
	env = append(env, wish.tell(r.cron.address, lease, deadline)...)
	return append(env, tickVariable+"="+jobs.Tick(ctx).UTC().Format(time.RFC3339)), secret, nil
}
