// Package elect is stile elect: it runs a command as leader, or shows the leader.
//
// Of the other packages of the command it may import claim, flags, run, speech and store.
package elect

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/run"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const electLong = `Stands for leader of NAME, and runs CMD while it leads.

CMD gets the environment and the signals of stile run, and STILE_VALUE with the
--value that others see of the leader, such as its address. CMD ends before its
lease ends. If somebody broke its claim by hand, or the store forgot it, CMD ends a
moment after that.

When CMD ends, stile resigns and ends as CMD did. When the leadership is lost,
stile ends CMD, and exits with 79. It does not stand again: let your service
manager start it again.

With --watch, it does not stand, but prints who leads NAME, now and after every
change, until it is interrupted. With --json each of these is a line of JSON, with
at, name, leads (true, or false if nobody leads), ticket (the first of the leader's
tokens, a string; empty if nobody leads), value, owner, program, host, pid and
reason. All keys are always there.`

// New returns the command.
func New(s *store.Store) *cobra.Command {
	var watches, asJSON bool
	r := &run.Runner{Verb: "elect", Want: claim.Want{Candidate: true}}
	cmd := &cobra.Command{
		Use: "elect NAME [flags] -- CMD…", Short: "Run a command while leading, or show who leads", Long: electLong,
		Example: "  stile elect scheduler --value 10.0.0.7:8080 -- /usr/local/bin/scheduler\n" +
			"  stile elect scheduler --watch",
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     store.CompleteNames(s),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case watches && len(args) != 1:
				return exit.Usage("stile elect --watch needs one NAME, and no CMD; as in: stile elect scheduler --watch")
			case !watches && cmd.ArgsLenAtDash() < 0 && len(args) > 1:
				return exit.Usage("there is no -- between NAME and CMD; as in: stile elect %s -- %s", phrase.Quoted(args[0]),
					phrase.Quoted(args[1]))
			case !watches && (run.NameEnd(cmd, args) != 1 || len(run.CmdOf(cmd, args)) == 0):
				return exit.Usage("stile elect needs one NAME, then --, then CMD, or else --watch; as in: stile elect scheduler -- " +
					"./scheduler")
			}
			return flags.CheckName(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if watches {
				if err := watchesOnly(cmd.Flags()); err != nil {
					return err
				}
				// A follower is often started before the first candidate, so the store is made.
				return store.WithMade(cmd, s, func(ctx context.Context, c *stile.Client) error {
					return watchLeader(ctx, cmd.OutOrStdout(), c, args[0], asJSON)
				})
			}
			if asJSON {
				return exit.Usage("--json goes with --watch")
			}
			if !cmd.Flags().Changed("value") {
				r.Value = hostname()
			}
			return r.Start(cmd, s, args[:1], run.CmdOf(cmd, args))
		},
	}
	f := cmd.Flags()
	r.Flags(f)
	f.BoolVar(&watches, "watch", false, "print who leads, now and after every change")
	f.BoolVar(&asJSON, "json", false, "with --watch: print a line of JSON for every change")
	return cmd
}

// watchesOnly returns an error if flags do not go with --watch.
func watchesOnly(f *pflag.FlagSet) (err error) {
	f.Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"watch", "json", "url", "quiet", "verbose"}, f.Name) {
			err = exit.Usage("--%s does not go with --watch, which does not stand for leader", f.Name)
		}
	})
	return err
}

// hostname is the default value of a candidate.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// A LeaderView is the leader of a name in JSON, for programs. See inspect.QueueView.
type LeaderView struct {
	At      string `json:"at"`
	Name    string `json:"name"`
	Leads   bool   `json:"leads"`  // false if nobody leads
	Ticket  string `json:"ticket"` // the first of the leader's tokens; empty if nobody leads
	Value   string `json:"value"`
	Owner   string `json:"owner"`
	Program string `json:"program"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Reason  string `json:"reason"`
}

func leaderViewOf(name string, l stile.Leader, at time.Time) LeaderView {
	v := LeaderView{
		At: phrase.Stamp(at), Name: name, Leads: l.Leads(), Value: l.Value,
		Owner: l.Holder.Owner, Program: l.Holder.Program, Host: l.Holder.Host, PID: l.Holder.PID, Reason: l.Holder.Reason,
	}
	if v.Leads {
		v.Ticket = strconv.FormatInt(l.Ticket, 10)
	}
	return v
}

// watchLeader prints the leader until ctx ends or the store is out of reach for good.
func watchLeader(ctx context.Context, w io.Writer, c *stile.Client, name string, asJSON bool) error {
	for l, err := range c.Observe(ctx, name) {
		switch now := time.Now(); {
		case err != nil:
			err = speech.Passing(err)
		case asJSON:
			err = answer.JSON(w, leaderViewOf(name, l, now), "")
		default:
			_, err = fmt.Fprintf(w, "%s %s\n", now.Format("15:04:05.000"), leaderLine(l))
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// leaderLine returns the leader as a line for a person.
func leaderLine(l stile.Leader) string {
	h := l.Holder
	switch {
	case !l.Leads():
		return "nobody leads"
	case l.Value == "":
		return fmt.Sprintf("%s leads, from token %d", phrase.Printable(h.String()), l.Ticket)
	case h.Owner == "" && h.Program == "": // of another program
		return fmt.Sprintf("%s leads, from token %d", phrase.Printable(phrase.Quoted(l.Value)), l.Ticket)
	}
	return fmt.Sprintf("%s leads, from token %d: %s", phrase.Printable(phrase.Quoted(l.Value)), l.Ticket,
		phrase.Printable(h.String()))
}
