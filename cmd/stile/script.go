package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

  token=1873914880000        a number that rises from holder to holder of the name
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
