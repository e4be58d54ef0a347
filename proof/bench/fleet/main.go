//go:build unix

// Fleet computes the load that a fleet of processes puts on a store's server. fleet measure starts a server and the clients
// of up to 9,000 processes, in at most 16 processes, measures the server, and writes the results; fleet simulate computes
// the load of any other fleet from such results.
//
//	go run ./proof/bench/fleet measure -store redis -out proof/bench/fleet/model/testdata/redis.json
//	go run ./proof/bench/fleet simulate -store redis -processes 100000
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/fleet/model"
)

func main() {
	if runChild() {
		return
	}
	h := &servertest.Host{Program: "fleet"}
	err := mainErr(h, os.Args[1:], os.Stdout, os.Stderr)
	h.End()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "fleet: %v\n", err)
		os.Exit(1)
	}
}

const usage = "usage: fleet measure -store STORE [-sizes N,N,N] [-out FILE], or fleet simulate -store STORE -processes N"

func mainErr(h *servertest.Host, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "measure":
		return measureMain(h, args[1:], stdout, stderr)
	case "simulate":
		return simulateMain(args[1:], stdout, stderr)
	}
	return fmt.Errorf("no command is called %q; %s", args[0], usage)
}

func measureMain(h *servertest.Host, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("fleet measure", flag.ContinueOnError)
	flags.SetOutput(stderr)
	key := flags.String("store", "redis", "the `store` to measure")
	sizes := sizeList{}
	flags.Var(&sizes, "sizes", "clients of each fleet, `N,N,N`; default by store")
	parts := sizeList{}
	flags.Var(&parts, "parts", "clients of the measurements of one kind of work, few and many, `N,N`; default by store")
	out := flags.String("out", "", "write the measurements into this `file`; without it, they are printed")
	rounds := flags.Int("rounds", 3, "how often to measure all; the median of each figure counts")
	span := flags.Duration("span", 10*time.Second, "how long each measurement lasts")
	settle := flags.Duration("settle", 1*time.Second, "how long to wait before each")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("measure takes no argument, but got %q", flags.Arg(0))
	}
	if *span <= 0 || *settle < 0 {
		return fmt.Errorf("-span must be more than 0 and -settle at least 0, not %v and %v", *span, *settle)
	}
	if *rounds < 1 {
		return fmt.Errorf("-rounds must be at least 1, not %d", *rounds)
	}
	s, err := storeOf(*key)
	if err != nil {
		return err
	}
	if len(sizes) == 0 {
		sizes = s.sizes
	}
	if parts, err = parts.fewAndMany(s); err != nil {
		return err
	}
	if err := moreFiles(); err != nil {
		return err
	}
	m := &measurement{
		revision: head(),
		rounds:   *rounds, span: *span, settle: *settle, log: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
	command := "go run ./proof/bench/fleet measure " + strings.Join(thoseOfTheRun(flags), " ")
	text, err := m.write(h, s, parts, sizes, command, *out)
	if err == nil && *out == "" {
		_, err = fmt.Fprintf(stdout, "%s\n", text)
	}
	return err
}

// write measures, and writes the results into a file after each round, unless its name is empty. It returns the last text.
func (m *measurement) write(h *servertest.Host, s *store, parts, sizes []int, command, file string) (text []byte, err error) {
	err = measure(h, s, parts, sizes, m, func(r *model.Record) (err error) {
		r.Machine, r.Date, r.Command, r.Revision = machine(), time.Now().UTC().Format("2 January 2006"), command, m.revision
		if text, err = json.MarshalIndent(r, "", "\t"); err != nil || file == "" {
			return err
		}
		text = append(text, '\n')
		return os.WriteFile(file, text, 0o644)
	})
	return text, err
}

// head returns the commit of the working tree, or "" if there is none.
func head() string {
	out, _ := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	return strings.TrimSpace(string(out))
}

// thoseOfTheRun returns the flags that were set, except the ones that say where the result goes.
func thoseOfTheRun(flags *flag.FlagSet) (args []string) {
	flags.Visit(func(set *flag.Flag) {
		if set.Name != "out" {
			args = append(args, fmt.Sprintf("-%s=%v", set.Name, set.Value))
		}
	})
	return args
}
