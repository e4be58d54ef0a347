//go:build unix

// Chaos runs processes that lock and unlock the same names. Meanwhile the processes, their servers and the connections
// between them are killed, stopped, cut and delayed. Then it checks what the processes believed: no two held locks that
// exclude each other, tokens rose, everybody held again after the last fault, and nothing was left in the end.
//
//	go run ./proof/chaos -store etcd -for 1m -seed 7
//	go run ./proof/chaos -store serve -for 5m
//	go run ./proof/chaos -store sqlite,redis -for 8s -seed 1 -runs 200
//	go run ./proof/chaos -peer redislock -for 25s -seed 1 -runs 3
//
// The second command locks through the lock service, see served. The third one makes 200 runs in all, the stores in turn, with
// the seeds from 1 to 200. The last one measures lock libraries of others under the same faults, and gives no verdict.
//
// A run's name is its store and its seed. The same name draws the same faults.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// The environment variables with a worker's brief. A worker is this program.
const (
	workerURL   = "STILE_CHAOS_URL"
	workerSeed  = "STILE_CHAOS_SEED"
	workerBlind = "STILE_CHAOS_BLIND"
	workerPeer  = "STILE_CHAOS_PEER"
	workerBooks = "STILE_CHAOS_REGISTER"
)

// A brief is a worker's task.
type brief struct {
	url   string
	seed  uint64
	blind bool

	peer     string // the library that it drives; empty if none
	register string // the register's address
}

func (b *brief) environ() []string {
	return []string{
		workerURL + "=" + b.url,
		workerSeed + "=" + strconv.FormatUint(b.seed, 10),
		workerBlind + "=" + strconv.FormatBool(b.blind),
		workerPeer + "=" + b.peer,
		workerBooks + "=" + b.register,
	}
}

// isWorker runs a worker, if this process is one.
func isWorker() {
	url, ok := os.LookupEnv(workerURL)
	if !ok {
		return
	}
	seed, _ := strconv.ParseUint(os.Getenv(workerSeed), 10, 64)
	blind, _ := strconv.ParseBool(os.Getenv(workerBlind))
	b := &brief{url, seed, blind, os.Getenv(workerPeer), os.Getenv(workerBooks)}
	program := work
	if b.peer != "" {
		program = workPeer
	}
	if err := program(b, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func main() {
	isWorker()
	var (
		which   = flag.String("store", "", "some of "+storeList()+", with commas; empty means each, one after the other")
		during  = flag.Duration("for", 20*time.Second, "how long faults are made, for each store")
		seed    = flag.Uint64("seed", uint64(time.Now().Unix()), "what the faults are drawn from")
		pairs   = flag.Bool("pairs", false, "hit processes at the same time as servers, not one after the other")
		workers = flag.Int("workers", 4, "how many processes lock")
		only    = flag.String("faults", "", "some of "+strings.Join(kinds(faults), ", ")+", with commas; empty means all these. Only before the lock service: "+strings.Join(kinds(ofBalancer), ", ")+". Only if named: "+strings.Join(kinds(administered), ", "))
		log     = flag.String("log", "", "append a line for each run to this file; needs -for. With -runs, what the file has is not run again")
		others  = flag.String("peer", "", "measure lock libraries in place of a check: all, or some of "+peerList()+", with commas")
		runs    = flag.Int("runs", 1, "of peers, how often each is run; else how many runs there are in all, the stores in turn; with one seed after the other")
		book    = flag.String("o", "", "keep what is measured of peers in this file, beside what it has of other peers and seeds")
	)
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := peerFlags(given, *runs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	p := plan{during: *during, seed: *seed, workers: *workers, pairs: *pairs}
	if *only != "" {
		p.only = strings.Split(*only, ",")
	}
	many := series{plan: p, stores: slices.Sorted(maps.Keys(stores)), runs: *runs, log: *log}
	if *which != "" {
		many.stores = strings.Split(*which, ",")
	}
	if !given["runs"] {
		many.runs, many.alike = len(many.stores), true
	}
	if err := many.check(*log == "" || given["for"]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	if given["peer"] {
		comparePeers(&p, *others, *runs, *book)
		return
	}
	c, err := many.play(os.Stdout, once, (*outcome).explain)
	if err != nil {
		fmt.Fprintln(os.Stderr, "-log:", err)
		os.Exit(1)
	}
	if given["runs"] {
		fmt.Println(c)
	}
	if c.wrong+c.inconclusive > 0 {
		os.Exit(1)
	}
}

// comparePeers makes runs of peers. It gives no verdict on them, so the exit status only says whether they could be
// measured.
func comparePeers(p *plan, text string, runs int, path string) {
	names, err := chosenPeers(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	if err := runPeers(p, names, runs, path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// once makes one run of a plan, with servers of its own.
func once(p *plan) *outcome {
	host := &servertest.Host{Program: "chaos"}
	defer host.End()
	return play(host, p)
}

// tries is how often a failed run is repeated with fewer kinds of faults.
const tries = 8

// explain saves a failed run, and repeats it with fewer kinds of faults.
func (o *outcome) explain() {
	if path, err := o.save(os.TempDir()); err != nil {
		fmt.Fprintln(os.Stderr, "the history is not saved:", err)
	} else {
		fmt.Printf("  the history is in %s\n", path)
		paths, err := o.pictures(path)
		for _, path := range paths {
			fmt.Printf("  a picture of it is in %s\n", path)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "a picture is not saved:", err)
		}
	}
	few := fewer(o.hit(), tries, func(only []string) bool {
		again := o.plan
		again.only = only
		return len(once(&again).wrong) > 0
	})
	again := o.plan
	again.only = few
	fmt.Printf("  it fails with: %s\n", again.flags())
}
