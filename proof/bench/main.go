//go:build unix

// Bench measures stile beside other lock libraries on one real server, alternating in one run, prints the figures as they
// come, and writes a page about them. It starts and ends the server and child processes of itself.
//
//	go run . -out ../../docs/evidence/bench/redis.md
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/internal/system"
)

func main() {
	if runChild() {
		return
	}
	h := &servertest.Host{Program: "bench"}
	err := mainErr(h, os.Args[1:], os.Stdout, os.Stderr)
	h.End()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func mainErr(h *servertest.Host, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", "", "write the page into this `file`, and the index in README.md beside the file anew; without it, the page is printed")
	quick := flags.Bool("quick", false, "take half a minute, for figures that mean little")
	only := flags.String("only", "", "take only the measures whose key matches this `regexp`, as in ^alone$")
	store := flags.String("store", redisArena.key, "the `store` to measure on: redis, setnx, redlock, memcached, etcd, zookeeper, consul, postgres, mysql, sqlite")
	rounds := flags.Int("rounds", usualRounds, "how often to take each measure")
	seconds := flags.Float64("seconds", usualSeconds, "length of a window")
	profile := flags.String("profile", "", "write profiles of stile's side into this `folder`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bench{
		rounds: *rounds, window: time.Duration(*seconds * float64(time.Second)), idle: usualIdle,
		settle: usualSettle, profile: *profile,
		host: h, dir: h.TempDir(), log: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
	if *quick {
		b.rounds, b.window, b.idle, b.settle, b.brief = 1, 200*time.Millisecond, 300*time.Millisecond, 100*time.Millisecond, true
	}
	var err error
	if b.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if b.arena, err = arenaOf(*store); err != nil {
		return err
	}
	if !*quick {
		b.settle = max(b.settle, b.arena.lag)
	}
	b.server = b.arena.start(h)
	b.addr = b.server.Addr
	if b.arena.others != nil {
		b.addr = strings.Join(append([]string{b.addr}, b.arena.others(h)...), ",")
	}
	if b.arena.linked() {
		if b.far, err = b.link(b.addr); err != nil {
			return err
		}
	}
	b.measures = b.all()
	f := look(b.arena, b.server)
	f.command = "go run ."
	flags.Visit(func(set *flag.Flag) {
		if set.Name != "out" && set.Name != "profile" {
			f.command += fmt.Sprintf(" -%s=%v", set.Name, set.Value)
		}
	})
	f.command += b.arena.outFlag()
	if err := b.run(); err != nil {
		return err
	}
	f.load[1] = system.Load()
	var text bytes.Buffer
	if err := b.report(&text, f); err != nil {
		return err
	}
	if *out == "" {
		_, err := stdout.Write(text.Bytes())
		return err
	}
	if err := os.WriteFile(*out, text.Bytes(), 0o644); err != nil {
		return err
	}
	return reindex(*out)
}
