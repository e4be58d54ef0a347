//go:build unix

// Peers locks the same names with stile and with other clients, on real servers. It fails if two clients hold a lock at
// once, or if a client does not get a lock that another one released or died with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "peer" {
		if err := serve(context.Background(), os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[2], err)
			os.Exit(1)
		}
		return
	}
	var w setting
	flag.StringVar(&w.curator, "curator", "proof/interop/curator", "the folder of the Java client, built")
	flag.StringVar(&w.bin, "bin", "bin", "the folder of the programs that make built")
	flag.StringVar(&w.redis, "redis", "proof/interop/redis", "the folder of the Python and JavaScript clients, built")
	flag.StringVar(&w.shed, "shedlock", "proof/interop/shedlock", "the folder of the Java client of ShedLock, built")
	only := flag.String("only", "", "one store alone: consul, zookeeper, etcd, redis, redlock, postgres or mariadb")
	flag.Parse()
	if !all(&w, *only) {
		os.Exit(1)
	}
}

// all runs all plays at once, since most of them only wait, and reports whether all went well.
func all(w *setting, only string) bool {
	t := &servertest.Host{Program: "peers"}
	defer t.End()
	w.dir = t.TempDir()
	var err error
	if w.self, err = os.Executable(); err != nil {
		t.Fatalf("%v", err)
	}
	start := time.Now()
	var stores []*store
	for _, s := range []struct {
		name string
		open func(servertest.TB) *store
	}{
		{"consul", w.consul}, {"zookeeper", w.zooKeeper}, {"etcd", w.etcd}, {"redis", w.oneRedis},
		{"redlock", w.redlock}, {"postgres", w.postgres}, {"mariadb", w.mariaDB},
	} {
		if only == "" || only == s.name {
			stores = append(stores, s.open(t))
		}
	}
	if len(stores) == 0 {
		t.Fatalf("no such store: %q", only)
	}
	var work sync.WaitGroup
	var results []result
	var seen []sight
	work.Go(func() { results = run(stores) })
	work.Go(func() { seen = playAll(stores) })
	work.Wait()
	wrong := table(os.Stdout, results)
	fmt.Println()
	leaseTable(os.Stdout, results)
	fmt.Println()
	failed := playTable(os.Stdout, seen)
	fmt.Printf("\n%d pairs of clients, %d wrong; %d plays, %d wrong; %v\n",
		len(results), wrong, len(seen), len(failed), time.Since(start).Round(time.Second))
	for _, row := range failed {
		fmt.Println(row) // again, since of a long log only the end is kept
	}
	return wrong+len(failed) == 0
}
