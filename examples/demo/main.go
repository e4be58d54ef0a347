//go:build unix

// Demo shows what a lock does, and what it cannot do, with processes on this machine that are killed and stopped.
//
//	go run ./examples/demo payment     what a lock cannot prevent, and what can
//	go run ./examples/demo market      trades in Redis, optimistically and with locks
//	go run ./examples/demo cron        a job on many machines, each for itself and then once for all
//	go run ./examples/demo leader      whose writes come through when leaders follow one another
//
// One demo is a part of the command: stile demo tickets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/stilelock/stile/examples/demo/internal/cron"
	"github.com/stilelock/stile/examples/demo/internal/leader"
	"github.com/stilelock/stile/examples/demo/internal/market"
	"github.com/stilelock/stile/examples/demo/internal/payment"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/nearest"
	"github.com/stilelock/stile/internal/phrase"
)

const (
	intro = `Demo shows what a lock is for, and what it cannot do, with processes on this machine
that are killed and stopped:

`
	outro = `
See "demo help payment" for what one of them does, and for its flags. The locks are in
the store of --url, else of STILE_URL, else in a new SQLite file. One more demo is a
part of the command: stile demo tickets.

Exit status: 0 if the demo came out as it must, 1 if not, or
  64  bad usage
  69  the store cannot be reached, or the data
  71  this machine lacks something
  74  the output cannot be written
`
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit status. Output that could not be written is a failure of its own.
func run(args []string) int {
	out := &answer.Output{To: os.Stdout}
	err := call(out, args)
	if failed, known := errors.AsType[*exit.Status](err); out.Err != nil && (!known || failed.Code == 0) {
		err = exit.With(exit.Output, fmt.Errorf("the output cannot be written: %w", out.Err))
	}
	code, text := exit.Of(err)
	if text != "" {
		fmt.Fprintln(os.Stderr, "demo: "+phrase.OneLine(strings.TrimPrefix(text, "stile: ")))
	}
	return code
}

// call runs a demo, prints its help, or runs one process of a demo.
func call(out io.Writer, args []string) error {
	verbs := []*verb.Verb{payment.New(&store.Store{}), market.New(&store.Store{}), cron.New(&store.Store{}),
		leader.New(&store.Store{})}
	for _, role := range []verb.Role{payment.Payer, payment.Orderer, market.Trader, cron.Machine, leader.Candidate} {
		if len(args) == role.Count+1 && args[0] == role.Name {
			return demo.Failed(role.Run(context.Background(), args[1:]))
		}
	}
	if len(args) > 0 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		args = args[1:]
		if len(args) > 0 {
			args = []string{args[0], "--help"}
		}
	}
	if len(args) == 0 {
		help(out, verbs)
		return nil
	}
	i := slices.IndexFunc(verbs, func(v *verb.Verb) bool { return v.Name == args[0] })
	if i < 0 {
		return unknown(args[0], verbs)
	}
	v := verbs[i]
	if err := v.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		v.Help(out)
		return nil
	} else if err != nil {
		return err
	}
	ctx, stop := ending.Until(context.Background(), ending.Listen(ending.Signals))
	defer stop()
	return v.Run(ctx, out)
}

func help(out io.Writer, verbs []*verb.Verb) {
	text := intro
	for _, v := range verbs {
		text += fmt.Sprintf("  %-8s  %s\n", v.Name, v.Short)
	}
	fmt.Fprint(out, text+outro)
}

func unknown(word string, verbs []*verb.Verb) error {
	if word == "tickets" {
		return exit.Usage("tickets is a demo of the command: stile demo tickets")
	}
	var names []string
	for _, v := range verbs {
		names = append(names, v.Name)
	}
	return exit.Usage("there is no demo %s%s; there are: %s", phrase.Shortened(word), nearest.Hint(word, names),
		strings.Join(names, ", "))
}
