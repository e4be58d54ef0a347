// Package script is stile lock, renew and unlock: a script keeps a lock between these commands, by a handle.
//
// Of the other packages of the command it may import claim, flags, grant, speech and store.
package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/grant"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/internal/record"
)

const lockLong = `Takes the lock NAME and leaves it taken, for a script that renews it with
stile renew and releases it with stile unlock. Nothing renews it in the
background: it is lost when --ttl has passed without a renewal.

Prints lines that a shell can evaluate:

  token=1873914880000        a number that rises from holder to holder of the name;
                             empty if the store has no fencing
  ticket=1873914880000       names this grant for --token, in every store
  deadline=2026-01-31T12:00:00.000Z    until when the lock can be trusted
  handle=/run/user/1000/stile/…        the file that names the claim
  export STILE_GRANT_…=…     by which renew NAME and unlock NAME know this grant

The handle lets its reader release the lock; only its owner can read it.`

// A script is one call of lock, renew or unlock.
type script struct {
	*store.Store
	path     string // of the handle
	json     bool
	named    string // NAME, if given
	token    string // of the grant, if given
	tokenSet bool
	file     *grant.File // the content of the handle
}

// NewLock returns the command.
func NewLock(s *store.Store) *cobra.Command {
	w, sc := &claim.Want{}, &script{Store: s}
	cmd := &cobra.Command{
		Use: "lock NAME [--handle FILE]", Short: "Take a lock for a shell script", Long: lockLong,
		Example:           "  claim=$(stile lock nightly --ttl 10m) || exit\n  eval \"$claim\"\n  …\n  stile unlock nightly",
		Args:              flags.OneName,
		ValidArgsFunction: store.CompleteNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.Check(cmd.Flags()); err != nil {
				return err
			}
			if cmd.Flags().Changed("handle") {
				if err := sc.checkHandleFlag("the file that is to name the claim"); err != nil {
					return err
				}
			}
			w.Names, sc.named = args, args[0]
			return sc.lock(cmd.Context(), w, cmd.OutOrStdout())
		},
	}
	w.Flags(cmd.Flags())
	cmd.Flags().Lookup("ttl").Usage = "how long the lock lasts without a renewal"
	cmd.Flags().StringVar(&sc.path, "handle", "",
		"the file that is to name the claim, which must not exist (default: one in your runtime directory)")
	sc.jsonFlag(cmd)
	return cmd
}

const whichGrant = `It acts on one grant only: that of --token or --handle, or else the one that this
shell took, which it finds by the variable that stile lock printed. It never
touches the grant of somebody who has NAME now. If the grant is over, it exits
with 79.`

// NewRenew returns the command.
func NewRenew(s *store.Store) *cobra.Command {
	sc := &script{Store: s}
	cmd := &cobra.Command{
		Use: "renew [NAME] [--token TOKEN | --handle FILE]", Short: "Renew a lock that stile lock took",
		Long:              "Renews the lock for its whole ttl from now on, and prints what stile lock prints.\n" + whichGrant,
		Args:              sc.maybeName,
		ValidArgsFunction: store.CompleteNames(s),
		RunE:              func(cmd *cobra.Command, _ []string) error { return sc.renew(cmd.Context(), cmd.OutOrStdout()) },
	}
	sc.grantFlags(cmd)
	sc.jsonFlag(cmd)
	return cmd
}

// NewUnlock returns the command.
func NewUnlock(s *store.Store) *cobra.Command {
	sc := &script{Store: s}
	cmd := &cobra.Command{
		Use: "unlock [NAME] [--token TOKEN | --handle FILE]", Short: "Release a lock that stile lock took",
		Long:              "Releases the lock and removes its handle.\n" + whichGrant,
		Args:              sc.maybeName,
		ValidArgsFunction: store.CompleteNames(s),
		RunE:              func(cmd *cobra.Command, _ []string) error { return sc.unlock(cmd.Context()) },
	}
	sc.grantFlags(cmd)
	return cmd
}

func (sc *script) grantFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&sc.path, "handle", "", "the file that stile lock wrote")
	cmd.Flags().StringVar(&sc.token, "token", "", "the ticket that stile lock printed")
}

func (sc *script) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&sc.json, "json", false, "print one JSON value")
}

func (sc *script) maybeName(cmd *cobra.Command, args []string) error {
	handle := cmd.Flags().Changed("handle")
	sc.tokenSet = cmd.Flags().Changed("token")
	if handle {
		if err := sc.checkHandleFlag("the file that stile lock wrote"); err != nil {
			return err
		}
	}
	switch {
	case sc.tokenSet && sc.token == "":
		return exit.Usage("--token is empty: it is the number that stile lock printed")
	case handle && sc.tokenSet:
		return exit.Usage("--handle names a grant, and so does --token: give one of them")
	case len(args) > 1, len(args) == 0 && !handle:
		return exit.Usage("stile %s needs NAME or --handle FILE; as in: stile %s nightly", cmd.Name(), cmd.Name())
	case handle:
		sc.path = absolute(sc.path)
	}
	if len(args) == 1 {
		sc.named = args[0]
		return flags.CheckName(sc.named)
	}
	return nil
}

// checkHandleFlag refuses obvious mistakes: an empty variable, or the store's path.
func (sc *script) checkHandleFlag(meant string) error {
	switch {
	case sc.path == "":
		return exit.Usage("--handle is empty: it is %s", meant)
	case strings.Contains(sc.path, "://"):
		return exit.Usage("--handle %s is a URL: it is %s", sc.path, meant)
	}
	return nil
}

// lock takes the lock and writes its handle.
func (sc *script) lock(ctx context.Context, w *claim.Want, out io.Writer) error {
	address, _, err := sc.Address()
	if err != nil {
		return err
	}
	if answer.ToStdout(out) && closed(os.Stdout) {
		return exit.Usage("stdout is closed, or " + os.DevNull +
			" as daemons have it, so nobody would hear of the lock: let it be a pipe or a file")
	}
	if err := w.Conflict(address); err != nil {
		return err
	}
	dir, err := sc.prepare()
	if err != nil {
		return err
	}
	sc.Leaves = true
	record.OnBehalfOf(os.Getppid()) // this process is about to end; people can look for the shell that started it
	ctx, stop := ending.Until(ctx, ending.Listen(ending.Signals))
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // so that the write returns an error if the reader is gone
	c, err := w.Open(ctx, sc.Store, nil)
	if err != nil {
		return err
	}
	defer w.Drop(c)
	if t := c.Traits(); t.InSession || t.OwnClient {
		return exit.Usage("%s: a lock ends with the process that took it in %s, so stile lock cannot leave it taken: use stile run",
			address, t.Store)
	}
	lease, err := w.Take(ctx, c)
	if err != nil {
		return err
	}
	deadline, h, err := detach(ctx, c, lease)
	if err != nil {
		return errors.Join(err, lease.Unlock())
	}
	sc.file = grant.FileOf(address, h)
	if sc.path == "" {
		sc.path = grant.Path(dir, address, sc.file)
	}
	if err := sc.file.Write(sc.path); err != nil {
		return errors.Join(unwritten(fmt.Errorf("the handle cannot be written, so the lock was released: %w", err)),
			release(ctx, c, h))
	}
	if err := context.Cause(ctx); err != nil {
		return sc.giveBack(ctx, c, h, err)
	}
	speech.Detail("%q stays taken until %s, unless it is renewed or unlocked", sc.named, phrase.Stamp(deadline))
	if err := sc.print(out, address, deadline); err != nil {
		return sc.giveBack(ctx, c, h,
			exit.With(exit.Output, fmt.Errorf("the answer cannot be written, so the lock was released: %w", err)))
	}
	return nil
}

// prepare checks, before the wait for a lock, that its handle can be written, and returns the folder for it.
func (sc *script) prepare() (dir string, err error) {
	if sc.path != "" {
		sc.path = absolute(sc.path)
		return "", grant.CheckPath(sc.path)
	}
	if dir, err = store.RuntimeDir(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", unwritten(fmt.Errorf("the handle cannot be written: %w; give --handle FILE", err))
	}
	grant.Clear()
	return dir, nil
}

// unwritten returns the error for a handle that cannot be written. A full disk may have room later; a folder of another user
// stays closed.
func unwritten(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return exit.With(exit.Output, err)
	}
	return exit.Usage("%w", err)
}

// absolute returns the absolute form of a path, for use in another folder.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// giveBack releases a lock whose grant nobody will get.
func (sc *script) giveBack(ctx context.Context, c *stile.Client, h stile.Handle, why error) error {
	return errors.Join(why, release(ctx, c, h), sc.file.Remove(sc.path))
}

// release releases the lock of a grant, even when a signal has ended ctx.
func release(ctx context.Context, c *stile.Client, h stile.Handle) error {
	lease, err := c.Attach(context.WithoutCancel(ctx), h)
	if err != nil {
		return err
	}
	return lease.Unlock()
}

func (sc *script) renew(ctx context.Context, out io.Writer) error {
	ctx, stop := ending.Until(ctx, ending.Listen(ending.Signals))
	defer stop()
	sc.Leaves = true
	c, lease, err := sc.attach(ctx)
	if c != nil {
		defer c.Close()
	}
	var deadline time.Time
	if err == nil {
		deadline, _, err = detach(ctx, c, lease)
	}
	if err != nil {
		return sc.dropLost(err)
	}
	speech.Detail("%q stays taken until %s, unless it is renewed or unlocked", sc.file.Name, phrase.Stamp(deadline))
	now := time.Now()
	_ = os.Chtimes(sc.path, now, now) // if this fails, the handle is cleared away sooner
	address, _, err := sc.Address()
	if err != nil {
		return err
	}
	return sc.print(out, address, deadline)
}

// unlock releases the lock, and removes the handle.
func (sc *script) unlock(ctx context.Context) error {
	ctx, stop := ending.Until(ctx, ending.Listen(ending.Signals))
	defer stop()
	c, lease, err := sc.attach(ctx)
	if c != nil {
		defer c.Close()
	}
	if err == nil {
		err = lease.Unlock()
	}
	if err != nil {
		return sc.dropLost(err)
	}
	if err := sc.file.Remove(sc.path); err != nil {
		speech.Warn("warning: %q was released, and its handle cannot be removed: %v", sc.file.Name, err)
	}
	return nil
}

// dropLost removes the handle if the error says that its grant is lost: the shell may take the lock again.
func (sc *script) dropLost(err error) error {
	if sc.file != nil && errors.Is(err, stile.ErrLost) {
		return errors.Join(err, sc.file.Remove(sc.path))
	}
	return err
}

// print prints the grant for a script.
func (sc *script) print(out io.Writer, a *driver.Address, deadline time.Time) error {
	m, token := grant.Meant{Path: sc.path, Token: sc.file.Token}, &sc.file.Token
	if sc.file.Unfenced {
		token = nil
	}
	name := grant.VariableName(a, sc.file.Name)
	if sc.json {
		return answer.JSON(out, struct {
			Name     string  `json:"name"`
			Token    *string `json:"token"` // null if the store has no fencing
			Ticket   string  `json:"ticket"`
			Deadline string  `json:"deadline"`
			Handle   string  `json:"handle"`
			Variable string  `json:"variable"`
			Grant    string  `json:"grant"`
		}{sc.file.Name, token, m.Token, phrase.Stamp(deadline), sc.path, name, m.String()}, "")
	}
	printed := ""
	if token != nil {
		printed = *token
	}
	_, err := fmt.Fprintf(out, "token=%s\nticket=%s\ndeadline=%s\nhandle=%s\nexport %s=%s\n", printed, m.Token,
		phrase.Stamp(deadline), phrase.Quoted(sc.path), name, phrase.Quoted(m.String()))
	return err
}
