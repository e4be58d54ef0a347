package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const breakLong = `Removes a claim on NAME by hand: the claim with --ticket T (see stile show), or the
first in the queue. The next in the queue may hold the lock at once, while the former
holder may still be at work for a moment. Where the store can notify its client, the
holder learns of it at once; elsewhere at its next renewal, a third of its ttl later
at most.
A waiter that is removed ends where the store carries who removed it and why, as
Redis and PostgreSQL do; elsewhere it comes back at the tail.

With --ask nothing is removed: the holder hears that somebody asks for the lock,
and decides. In ZooKeeper it hears so at once, elsewhere at its next renewal; a
stile run says so on stderr. ZooKeeper and memcached's queue can carry this.

Asks first on a terminal; elsewhere it needs --yes, but not with --ask. Prints a
line for the record: who removed whose claim, or asked for it, when and why.`

// A breaking is one stile break.
type breaking struct {
	name, reason string
	ticket       int64
	yes, ask     bool
}

// Break returns the command.
func Break(s *store.Store) *cobra.Command {
	b := &breaking{}
	var ticket string
	cmd := &cobra.Command{
		Use: "break NAME --reason TEXT [--ticket T] [--ask] [--yes]", Short: "Remove a claim by hand, or ask for it",
		Long:                  breakLong,
		DisableFlagsInUseLine: true,
		Args:                  flags.OneName,
		ValidArgsFunction:     store.CompleteNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.name = args[0]
			var err error
			if cmd.Flags().Changed("ticket") {
				if b.ticket, err = strconv.ParseInt(ticket, 10, 64); err != nil || b.ticket < 1 {
					return exit.Usage("--ticket %q is not a ticket: it is a number, as stile show prints it", ticket)
				}
			}
			switch {
			case strings.TrimSpace(b.reason) == "":
				return exit.Usage("stile break needs --reason TEXT, for the record")
			case !b.yes && !b.ask && !tty.Is(os.Stdin):
				return exit.Usage("stile break asks first, and stdin is not a terminal: give --yes if you are sure")
			}
			return store.With(cmd, s, func(ctx context.Context, c *stile.Client) error { return b.do(ctx, c, cmd) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.reason, "reason", "", "why, for the record")
	f.StringVar(&ticket, "ticket", "", "the claim to remove (default: the first in the queue)")
	f.BoolVar(&b.ask, "ask", false, "remove nothing: ask the holder for the lock (ZooKeeper, memcached)")
	f.BoolVar(&b.yes, "yes", false, "do not ask")
	return cmd
}

// do removes the claim that it finds in the queue, or asks for it. It never acts on a claim that has taken its place
// meanwhile.
func (b *breaking) do(ctx context.Context, c *stile.Client, cmd *cobra.Command) error {
	q, err := c.Show(ctx, b.name)
	if err != nil {
		return err
	}
	i := 0
	if b.ticket != 0 {
		i = slices.IndexFunc(q.Claims,
			func(c stile.Claim) bool { return c.Ticket <= b.ticket && b.ticket < c.Ticket+claim.Tokens })
	}
	if i < 0 || i >= len(q.Claims) {
		return exit.Usage("there is no such claim on %q: it left, or ran out; stile show %s lists those that stand", b.name,
			phrase.Quoted(b.name))
	}
	claim := q.Claims[i]
	act := c.Break
	switch {
	case b.ask && !claim.Holds:
		return exit.Usage("the claim on %q waits; only a holder can be asked for the lock", b.name)
	case b.ask:
		act = c.Ask
	case !b.yes:
		if err := b.confirm(ctx, cmd, claim); err != nil {
			return err
		}
	}
	broken, err := act(ctx, b.name, stile.BreakOptions{Ticket: claim.Ticket, Reason: b.reason})
	if errors.Is(err, driver.ErrGone) || errors.Is(err, stile.ErrLost) {
		return exit.Usage("the claim on %q left, or ran out, a moment ago", b.name)
	}
	if err != nil {
		return err
	}
	b.record(cmd, broken, c.Traits().HearsBreak)
	return nil
}

// confirm returns an error unless a person says yes.
func (b *breaking) confirm(ctx context.Context, cmd *cobra.Command, claim stile.Claim) error {
	state := "holds it"
	if !claim.Holds {
		state = "waits for it"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Remove the claim on %s of %s, who %s since %s and may be at work? [y/N] ",
		phrase.Printable(phrase.Quoted(b.name)), phrase.Printable(claim.Holder.String()), state, phrase.Short(claim.Since))
	answered := make(chan string, 1)
	go func() { // until the process ends, if nobody answers
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answered <- answer
	}()
	select {
	case answer := <-answered:
		if slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
			return nil
		}
		return exit.With(exit.Failed, errors.New("nothing was removed"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// operator names the person who acts by hand.
func operator() string {
	by := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	if sudo := os.Getenv("SUDO_USER"); sudo != "" {
		by += " (sudo by " + sudo + ")"
	}
	host, err := os.Hostname()
	if err == nil {
		by += " on " + host
	}
	return by
}

// record prints the line for the record, as key=value with the time.
func (b *breaking) record(cmd *cobra.Command, claim stile.Claim, hears bool) {
	did := "claim removed by hand"
	if b.ask {
		did = "claim asked for by hand"
	}
	slog.New(slog.NewTextHandler(cmd.OutOrStdout(), nil)).Info(did,
		"name", b.name, "ticket", strconv.FormatInt(claim.Ticket, 10), "state", stateOf(claim), "holder", claim.Holder.String(),
		"by", operator(), "reason", b.reason)
	if b.ask || !claim.Holds {
		return
	}
	learns := "its client learns of it at once"
	switch {
	case claim.Holder.PID == 0: // a client over HTTP, or one of another library
		learns = "its client cannot be notified, and learns at its next renewal"
	case !hears:
		learns = "this store cannot notify its client, which learns at its next renewal, a third of its ttl later at most"
		if claim.TTL > 0 {
			learns = fmt.Sprintf("this store cannot notify its client, which learns at its next renewal, within %s",
				phrase.Short(claim.TTL/3))
		}
	}
	speech.Warn("the work of %s may go on for a moment: %s", phrase.Printable(claim.Holder.String()), learns)
}
