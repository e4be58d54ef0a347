//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/fleet/model"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	os.Exit(m.Run())
}

// The test measures a small fleet for a moment, long enough for some of its clients to lock, and simulates a larger one from
// the file.
func TestMeasureAndSimulate(t *testing.T) {
	h := &servertest.Host{Program: "fleet"}
	defer h.End()
	file := filepath.Join(t.TempDir(), "redis.json")
	var out, log bytes.Buffer
	args := []string{"measure", "-store", "redis", "-parts", "30,60", "-sizes", "10,30", "-span", "500ms", "-settle", "0", "-rounds", "2", "-out", file}
	if err := mainErr(h, args, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Fleets) != 2 || r.Fleets[1].Clients != 30 || r.Fleets[1].Seen.Connections != 30+30 {
		t.Errorf("measured %+v, want 10 and 30 clients, with a connection each and one more for each that holds or waits", r.Fleets)
	}
	for _, p := range []*model.Parts{&r.Few, &r.Many} {
		if got := p.Locking; got.CPU <= p.Empty.CPU || got.Received == 0 || got.Memory == 0 {
			t.Errorf("locking costs %+v, an empty server %+v", got, p.Empty)
		}
	}
	if !strings.HasPrefix(r.Command, "go run ./proof/bench/fleet measure -parts=30,60") {
		t.Errorf("command %q", r.Command)
	}
	if err := mainErr(h, []string{"simulate", "-from", file, "-processes", "1000"}, &out, &log); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1000 processes", "of 1 cores", "connections  2000", "what one server may be used to"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the simulation does not say %q:\n%s", want, &out)
		}
	}
}

func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(file, []byte(`{"store":"redis"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", "usage: fleet measure"},
		{"guess", `no command is called "guess"`},
		{"measure -store oracle", `-store: no store is called "oracle"; there are redis`},
		{"measure -sizes 100,none", `"none" is not a number from 1 to 9000`},
		{"measure -sizes 0", `"0" is not a number from 1 to 9000`},
		{"measure -sizes 100000", `"100000" is not a number from 1 to 9000`},
		{"measure -parts 3,10", "-parts must be two numbers, the first at least 10 and the second no less, not 3,10"},
		{"measure -parts 20,10", "the second no less, not 20,10"},
		{"measure -parts 20", "two numbers, the first at least 10 and the second no less, not 20"},
		{"measure -span 0", "-span must be more than 0"},
		{"measure -settle -1s", "-settle at least 0"},
		{"measure -rounds 0", "-rounds must be at least 1, not 0"},
		{"measure now", `measure takes no argument, but got "now"`},
		{"simulate -store oracle", `-store: no store is called "oracle"; measured are redis`},
		{"simulate -processes 0", "-processes must be from 1 to 1000000, not 0"},
		{"simulate -processes 1000001", "-processes must be from 1 to 1000000"},
		{"simulate -rate NaN", "-rate must be from 0 to 10, not NaN"},
		{"simulate -rate -1", "-rate must be from 0 to 10, not -1"},
		{"simulate -cores -1", "-cores must be from 1 to 1024, not -1"},
		{"simulate -from " + file + ".none", "-from: open "},
		{"simulate -from " + file, `measurements of "redis": no parts or no fleets`},
		{"simulate now", `simulate takes no argument, but got "now"`},
	} {
		var out bytes.Buffer
		err := mainErr(nil, strings.Fields(c.args), &out, &out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("fleet %s: %v, want %q", c.args, err, c.want)
		}
	}
}
