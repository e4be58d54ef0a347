//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == noopArg {
		fmt.Fprintln(os.Stderr, serveNoop(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A short run loses nothing, has two holders nowhere, and writes each part of the page without a gap.
func TestShort(t *testing.T) {
	h := &servertest.Host{Program: "served"}
	defer h.End()
	file := filepath.Join(t.TempDir(), "serve.md")
	var said bytes.Buffer
	if err := mainErr(h, []string{"-short", "-write", file}, &said, &said); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, title := range []string{"Targets", "Processor time", "Locks and unlocks a second", "Hand-over", "Many who wait for one name", "A replica fails", "The page"} {
		if !strings.Contains(page, "\n## "+title+"\n") {
			t.Errorf("the page has no part %q", title)
		}
	}
	for _, target := range []string{"places lost of 200 clients that wait for one name", "leases lost when a replica is killed", "double holds when a replica is killed",
		"leases lost when a replica is frozen", "double holds when a replica is frozen", "Lists of the store a second for the page, without viewers"} {
		if !strings.Contains(page, "| "+target+" | 0 | ≤ 0 | met |") {
			t.Errorf("the page does not say that the target is met: %s", target)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Errorf("the page has figures that are none:\n%s", page)
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"now", `served takes only flags, but got "now"`},
		{"-parts rate,speed", `-parts: "speed" is none of processor, rate, handover, herd, failover, page`},
	} {
		var out bytes.Buffer
		if err := mainErr(nil, strings.Fields(c.args), &out, &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("served %s: %v, want %q", c.args, err, c.want)
		}
	}
}
