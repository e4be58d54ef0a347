package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/inspect"
	"github.com/stilelock/stile/jobs"
)

// The last tick of a job, what became of it and the next one are shown, for people and for programs.
func TestShowJob(t *testing.T) {
	u := newAccount(t)
	url := "sqlite://" + filepath.Join(u.home, "jobs.db")
	c, err := stile.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := make(chan bool)
	work := func(context.Context) error { runs <- true; <-runs; return errors.New("no figures") }
	j, err := jobs.New(c, "nightly", "@every 1s", work, &jobs.Options{Report: func(jobs.Result) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- j.Run(ctx) }()
	<-runs
	look := func(want string) {
		t.Helper()
		if got := u.must("show", "nightly", "--url", url); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	const stamp = `20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`
	look(`(?s)holds .*\nlast tick ` + stamp + `: runs now, with ticket \d+, by \S+ on \S+, pid \d+\nnext tick ` + stamp + `\n$`)
	runs <- true
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	look(`^nightly is free: .*\nlast tick ` + stamp + `: failed after \S+: no figures, with ticket \d+, by \S+ on \S+, pid \d+\nnext tick ` + stamp + `\n$`)

	var v inspect.ShownView
	if err := json.Unmarshal([]byte(u.must("show", "nightly", "--json", "--url", url)), &v); err != nil {
		t.Fatal(err)
	}
	if j := v.Job; j == nil || j.State != "over" || j.Outcome != "failed" || j.Error != "no figures" || j.Token == "" || j.PID == 0 {
		t.Fatalf("got %+v", j)
	}
	tick, err := time.Parse(time.RFC3339, v.Job.Tick)
	if next, bad := time.Parse(time.RFC3339, v.Job.Next); err != nil || bad != nil || next.Sub(tick) != time.Second {
		t.Errorf("tick %s, next %s: want a second between them", v.Job.Tick, v.Job.Next)
	}

	// What something else keeps in that place is no job.
	if _, err := c.Candidate("other/last", "else").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := u.must("show", "other", "--url", url), "other is free: nobody holds it or waits for it\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
