package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
)

const lockLong = `Takes the lock NAME and leaves it taken, for a script that renews it with
stile renew and releases it with stile unlock. Nothing renews it in the
background: it is lost when --ttl has passed without a renewal.

Prints lines that a shell can evaluate:

  token=1873914880000        a number that rises with every grant of the name
  deadline=2026-01-31T12:00:00.000Z    until when the lock can be trusted
  handle=/run/user/1000/stile/…        the file that names the claim

The handle lets its reader release the lock; only its owner can read it.`

// A script is one call of lock, renew or unlock.
type script struct {
	*store
	path  string // of the handle
	json  bool
	named string // NAME, if given
}

func newLock(s *store) *cobra.Command {
	w, sc := &wish{}, &script{store: s}
	cmd := &cobra.Command{
		Use: "lock NAME [--handle FILE]", Short: "Take a lock for a shell script", Long: lockLong,
		Example:           "  claim=$(stile lock nightly --ttl 10m) || exit\n  eval \"$claim\"\n  …\n  stile unlock nightly",
		Args:              oneName,
		ValidArgsFunction: completeNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(cmd.Flags()); err != nil {
				return err
			}
			sc.named = args[0]
			return sc.lock(cmd.Context(), w, cmd.OutOrStdout())
		},
	}
	w.flags(cmd.Flags())
	sc.flags(cmd)
	return cmd
}

func newRenew(s *store) *cobra.Command {
	sc := &script{store: s}
	cmd := &cobra.Command{
		Use: "renew [NAME] [--handle FILE]", Short: "Renew a lock that stile lock took",
		Long: "Renews the lock for its whole ttl from now on, and prints what stile lock prints.\n" +
			"Exits with 79 if it was lost.",
		Args:              sc.maybeName,
		ValidArgsFunction: completeNames(s),
		RunE:              func(cmd *cobra.Command, _ []string) error { return sc.renew(cmd.Context(), cmd.OutOrStdout()) },
	}
	sc.flags(cmd)
	return cmd
}

func newUnlock(s *store) *cobra.Command {
	sc := &script{store: s}
	cmd := &cobra.Command{
		Use: "unlock [NAME] [--handle FILE]", Short: "Release a lock that stile lock took",
		Long:              "Releases the lock and removes its handle. Exits with 79 if it was lost before.",
		Args:              sc.maybeName,
		ValidArgsFunction: completeNames(s),
		RunE:              func(cmd *cobra.Command, _ []string) error { return sc.unlock(cmd.Context()) },
	}
	cmd.Flags().StringVar(&sc.path, "handle", "", "the file that stile lock wrote (default: that of NAME)")
	return cmd
}

func (sc *script) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&sc.path, "handle", "", "the file that names the claim (default: one for NAME in your runtime directory)")
	cmd.Flags().BoolVar(&sc.json, "json", false, "print one JSON value")
}

func (sc *script) maybeName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1, len(args) == 0 && sc.path == "":
		return usage("stile %s needs NAME or --handle FILE; as in: stile %s nightly", cmd.Name(), cmd.Name())
	case len(args) == 1:
		sc.named = args[0]
	}
	return nil
}

// lock takes the lock and writes its handle.
func (sc *script) lock(ctx context.Context, w *wish, out io.Writer) error {
	address, _, err := sc.address()
	if err != nil {
		return err
	}
	if err := driver.CheckName(sc.named); err != nil {
		return usage("NAME: %w", err)
	}
	if sc.path == "" {
		if sc.path, err = defaultHandle(address, sc.named); err != nil {
			return err
		}
	}
	if err := checkHandlePath(sc.path); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx, listen(ending))
	defer stop()
	c, err := sc.open(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	lease, err := w.take(ctx, c, sc.named)
	if err != nil {
		return err
	}
	old, err := sc.stale(ctx, c)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return errors.Join(err, lease.Unlock())
	}
	deadline, h, err := detach(ctx, c, lease)
	if err != nil {
		return errors.Join(err, lease.Unlock())
	}
	if err := handleOf(address, h).write(sc.path, old); err != nil {
		if again, e := c.Attach(context.WithoutCancel(ctx), h); e == nil {
			e = again.Unlock()
			err = errors.Join(err, e)
		}
		return usage("the handle cannot be written, so the lock was released: %w", err)
	}
	return sc.print(out, h, deadline)
}

// stale reports whether the handle's file is there, left by a claim that no longer stands. One that stands is an error.
func (sc *script) stale(ctx context.Context, c *stile.Client) (bool, error) {
	h, err := readHandle(sc.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, usage("--handle %s: %w", sc.path, err)
	}
	q, err := c.Show(ctx, h.Name)
	if err != nil {
		return false, err
	}
	token, _ := strconv.ParseInt(h.Token, 10, 64)
	if slices.ContainsFunc(q.Claims, func(claim stile.Claim) bool { return claim.Ticket != 0 && claim.Ticket == token-token%claimTokens }) {
		return false, usage("%s is the handle of a claim on %q that still stands: release it with stile unlock, or give --handle another file",
			sc.path, h.Name)
	}
	return true, nil
}

// claimTokens is how many tokens belong to one claim. Its ticket is the first.
const claimTokens = 1 << 10

// detach leaves the lease to whoever has the handle, and tells until when it can be trusted.
func detach(ctx context.Context, c *stile.Client, lease *stile.Lease) (time.Time, stile.Handle, error) {
	sent := time.Now()
	h, err := lease.Detach(ctx)
	if err != nil {
		return time.Time{}, h, err
	}
	// As the library reckons: a clock's drift, the store's granularity, and a margin.
	trust := h.TTL - h.TTL/100 - c.Traits().Granularity - min(h.TTL/10, time.Second)
	return sent.Add(trust), h, nil
}

// attach opens the store and takes up the claim that the handle names.
func (sc *script) attach(ctx context.Context) (*stile.Client, *stile.Lease, error) {
	address, _, err := sc.address()
	if err != nil {
		return nil, nil, err
	}
	if sc.path == "" {
		if sc.path, err = defaultHandle(address, sc.named); err != nil {
			return nil, nil, err
		}
	}
	file, err := readHandle(sc.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, usage("there is no handle %s: it was unlocked, or locked with another --handle, --url or user", sc.path)
	case err != nil:
		return nil, nil, usage("--handle %s: %w", sc.path, err)
	case sc.named != "" && sc.named != file.Name:
		return nil, nil, usage("%s is the handle of %q, not of %q", sc.path, file.Name, sc.named)
	case file.Store != storeID(address):
		return nil, nil, usage("%s is for the store %s, but --url or %s says %s", sc.path, file.Store, urlVariable, storeID(address))
	}
	h, err := file.handle()
	if err != nil {
		return nil, nil, usage("--handle %s: %w", sc.path, err)
	}
	c, err := sc.open(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	lease, err := c.Attach(ctx, h)
	if err != nil {
		return c, nil, err
	}
	return c, lease, nil
}

func (sc *script) renew(ctx context.Context, out io.Writer) error {
	c, lease, err := sc.attach(ctx)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return err
	}
	deadline, h, err := detach(ctx, c, lease)
	if err != nil {
		return err
	}
	return sc.print(out, h, deadline)
}

// unlock releases the lock. A handle whose claim is gone is of no more use, and goes too.
func (sc *script) unlock(ctx context.Context) error {
	c, lease, err := sc.attach(ctx)
	if c != nil {
		defer c.Close()
	}
	if err == nil {
		err = lease.Unlock()
	}
	if err == nil || errors.Is(err, stile.ErrLost) {
		err = errors.Join(err, os.Remove(sc.path))
	}
	return err
}

// print tells a script what it has.
func (sc *script) print(out io.Writer, h stile.Handle, deadline time.Time) error {
	token := strconv.FormatInt(h.Token, 10)
	if sc.json {
		return writeJSON(out, struct {
			Name     string `json:"name"`
			Token    string `json:"token"`
			Deadline string `json:"deadline"`
			Handle   string `json:"handle"`
		}{h.Name, token, stamp(deadline), sc.path}, "")
	}
	_, err := fmt.Fprintf(out, "token=%s\ndeadline=%s\nhandle=%s\n", token, stamp(deadline), quoted(sc.path))
	return err
}
