//go:build unix

// Command demos runs all demos, of the command stile and of examples/demo, each in a few seconds, or longer in a store
// without leases of a second.
//
//	go run ./internal/repo/demos bin/stile bin/demo
//	go run ./internal/repo/demos -store etcd,memcached bin/stile bin/demo
//	go run ./internal/repo/demos -store all bin/stile bin/demo
//
// The locks are in the store of -url, which is empty for the embedded one, or in servers that are started for each
// name of -store. The market is in the Redis of -data, or in one that is started for it. All demos of all stores are
// run, whatever fails, and the status shows whether one did.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// stores start the servers of a store, and return its URL.
var stores = map[string]func(t servertest.TB) string{
	"sqlite": func(t servertest.TB) string { return "sqlite://" + t.TempDir() + "/locks.db" },
	"redis":  func(t servertest.TB) string { return "redis://" + servertest.Redis(t).Addr },
	"redlock": func(t servertest.TB) string {
		// Members that forget have no vote for a while after their start.
		lasting := []string{"--appendonly", "yes", "--appendfsync", "always"}
		return "redlock://" +
			addrs(servertest.Redis(t, lasting...), servertest.Redis(t, lasting...), servertest.Redis(t, lasting...))
	},
	"zookeeper": func(t servertest.TB) string { return "zk://" + addrs(servertest.ZooKeeperEnsemble(t, 3)...) },
	"etcd":      func(t servertest.TB) string { return "etcd://" + addrs(servertest.EtcdCluster(t, 3)...) },
	"consul":    func(t servertest.TB) string { return "consul://" + servertest.Consul(t, nil).Addr },
	"postgres": func(t servertest.TB) string {
		return "postgres://postgres@" + servertest.Postgres(t).Addr + "/postgres"
	},
	"mariadb":   func(t servertest.TB) string { return "mysql://root@" + servertest.MySQL(t).Addr + "/mysql" },
	"memcached": func(t servertest.TB) string { return "memcached://" + servertest.Memcached(t, "-M").Addr },
}

func addrs(servers ...*servertest.Server) string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return strings.Join(list, ",")
}

// demos are the command lines.
var demos = []string{"stile demo tickets", "stile demo tickets --chaos", "demo payment", "demo market", "demo cron",
	"demo leader"}

func main() {
	all := slices.Sorted(maps.Keys(stores))
	url := flag.String("url", "", "the store of the locks; empty means the embedded one")
	data := flag.String("data", "", "the Redis of the market; empty means one that is started for it")
	which := flag.String("store", "",
		"start the servers of these, with commas, in place of -url: all, or some of "+strings.Join(all, ", "))
	flag.Parse()
	names := strings.Split(*which, ",")
	if *which == "all" {
		names = all
	}
	if err := usage(flag.Args(), names, *url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	programs := map[string]string{"stile": flag.Arg(0), "demo": flag.Arg(1)}
	var rows []row
	for _, name := range names {
		rows = append(rows, run(programs, name, *url, *data))
	}
	if !report(rows) {
		os.Exit(1)
	}
}

// usage returns an error if the arguments are wrong.
func usage(args, names []string, url string) error {
	if len(args) != 2 {
		return fmt.Errorf("%d arguments: want two, the command stile and the program demo", len(args))
	}
	if len(names) == 1 && names[0] == "" {
		return nil
	}
	if url != "" {
		return errors.New("-store starts a store of its own: leave out -url")
	}
	for _, name := range names {
		if stores[name] == nil {
			return fmt.Errorf("-store %q is none of all, %s", name, strings.Join(slices.Sorted(maps.Keys(stores)), ", "))
		}
	}
	return nil
}

// A row has the results of the demos of a store: how long each took, and whether it ended well.
type row struct {
	store string
	cells []string
	ok    bool
}

// run runs all demos in one store.
func run(programs map[string]string, store, url, data string) row {
	h := &servertest.Host{Program: "demos"}
	defer h.End()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stop)
	go func() { <-stop; h.Fatalf("stopped") }()
	r := row{store: store, ok: true}
	if store == "" {
		r.store = "embedded"
		if url != "" {
			r.store, _, _ = strings.Cut(url, ":")
		}
	} else {
		url = stores[store](h)
	}
	if data == "" {
		data = "redis://" + servertest.Redis(h).Addr
	}
	for _, demo := range demos {
		words := strings.Fields(demo)
		program, args := programs[words[0]], words[1:]
		if url != "" {
			args = append(args, "--url", url)
		}
		if demo == "demo market" {
			args = append(args, "--data", data)
		}
		fmt.Printf("== %s, %s\n", demo, r.store)
		begin := time.Now()
		status := call(program, append(args, "--quick")...)
		if status == 64 { // the store's shortest lease is too long for that
			status = call(program, args...)
		}
		cell := fmt.Sprintf("%.1f s", time.Since(begin).Seconds())
		if status != 0 {
			cell, r.ok = fmt.Sprintf("FAILS: %d", status), false
		}
		r.cells = append(r.cells, cell)
	}
	return r
}

// call runs a command, and returns its status.
func call(name string, args ...string) int {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	return cmd.ProcessState.ExitCode()
}

// report prints what came of all, and reports whether all ended well.
func report(rows []row) bool {
	fmt.Printf("\n%-10s", "store")
	for _, demo := range demos {
		fmt.Printf("  %-15s", strings.TrimPrefix(strings.TrimPrefix(demo, "stile "), "demo "))
	}
	fmt.Println()
	ok := true
	for _, r := range rows {
		fmt.Printf("%-10s", r.store)
		for _, cell := range r.cells {
			fmt.Printf("  %-15s", cell)
		}
		fmt.Println()
		ok = ok && r.ok
	}
	return ok
}
