//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/stilelock/stile/internal/servertest"
)

// The store of a run may be served by replicas of the lock service: the command stile serve. Each replica has a way of its own to the
// store's server, and clients have one to each replica. One after the other, the workers use
//
//	the replicas, in one order or the other     stile://a,b
//	the balancer, which sends each request to   stile://balancer
//	the next replica
//	the store itself                            redis://…
//
// All of them exclude each other.

// replicas is how many replicas serve a store.
const replicas = 2

// served puts replicas and a balancer before a store. Each call of below returns the store's URL by another way.
func (s *store) served(t servertest.TB, below func() string) *store {
	command := buildCommand(t)
	var list []*servertest.Server
	for range replicas {
		url := below()
		list = append(list, servertest.Start(t, servertest.Process{
			Binary: command,
			Args:   func(r *servertest.Server) []string { return []string{"serve", "--url", url, "--listen", r.Addr} },
			Ready:  isReady,
		}))
	}
	direct := below()
	addrs := s.behind(t, list...)
	s.balancer = newBalancer(t, addrs)
	s.broken = func() []string { return panics(list) }
	a, b := addrs[0], addrs[1]
	s.urls = []string{"stile://" + a + "," + b, "stile://" + s.balancer.addr, direct, "stile://" + b + "," + a}
	return s
}

// buildCommand builds the command stile and returns its path.
func buildCommand(t servertest.TB) string {
	file := filepath.Join(t.TempDir(), "stile")
	build := exec.Command("go", "build", "-trimpath", "-o", file, "github.com/stilelock/stile/cmd/stile")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return file
}

// isReady returns why a replica does not serve its store yet, or nil.
func isReady(r *servertest.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), leeway)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", answer.Status)
	}
	if e := answer.Body.Close(); err == nil {
		err = e
	}
	return err
}

// panicked is a message of a Go program that panicked, in one request or as a whole.
var panicked = regexp.MustCompile(`(?m)^.*(panic serving|panic: |fatal error: ).*$`)

// panics returns the panics that servers have reported.
func panics(list []*servertest.Server) (found []string) {
	for _, s := range list {
		text, err := os.ReadFile(filepath.Join(s.Dir, "log"))
		if err != nil {
			found = append(found, err.Error())
		}
		for _, line := range panicked.FindAllString(string(text), -1) {
			found = append(found, "a replica panicked: "+line)
		}
	}
	return found
}
