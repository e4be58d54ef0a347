//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
)

// What cannot be done is refused in one line, before anything is begun, and no password is shown.
func TestRefused(t *testing.T) {
	t.Parallel()
	const dead = "redis://user:s3cret!@127.0.0.1:1"
	for _, tt := range []struct {
		args string
		code int
		want string // the beginning of the last line
	}{
		{"nonsense", exit.BadUsage, `there is no demo "nonsense"; there are: payment, market, cron, leader`},
		{"paiment", exit.BadUsage, `there is no demo "paiment"; did you mean payment?; there are: `},
		{"tickets", exit.BadUsage, "tickets is a demo of the command: stile demo tickets"},
		{"help nonsense", exit.BadUsage, `there is no demo "nonsense"; `},
		{dead, exit.BadUsage, `there is no demo "redis://…@127.0.0.1:1"; `},
		{"payment extra", exit.BadUsage, "demo payment takes flags only"},
		{"payment --nonsense", exit.BadUsage, "flag provided but not defined: -nonsense; see: demo help payment"},
		{"payment --orders 0", exit.BadUsage, "--orders 0: it must be from 1 to 10000"},
		{"payment --orders many", exit.BadUsage, `invalid value "many" for flag -orders: `},
		{"payment --processes 65", exit.BadUsage, "--processes 65: it must be from 2 to 64"},
		{"payment --quick --orders 101", exit.BadUsage, "--orders 101: with --quick it must be from 1 to 100"},
		{"payment --quick --processes 9", exit.BadUsage, "--processes 9: with --quick it must be from 2 to 8"},
		{"payment --data=", exit.BadUsage, "--data is empty: "},
		{"payment --data localhost", exit.BadUsage, "--data: the store's URL must begin with a scheme"},
		{"payment --data sqlite:///shop.db", exit.BadUsage, "--data sqlite:///shop.db: the orders are kept in PostgreSQL or MySQL"},
		{"payment --data postgres://localhost/shop?mode=session", exit.BadUsage, `--data postgres://localhost/shop: unknown parameter "mode"`},
		{"payment --data mysql://localhost", exit.BadUsage, "--data mysql://localhost/: it must name a database"},
		{"payment --data mysql://first,second/shop", exit.BadUsage, "--data mysql://first,second/shop: it must name one server"},
		{"payment --data mysql://localhost/shop?tls=perhaps", exit.BadUsage, "--data mysql://localhost/shop: parameter tls must be "},
		{"payment --svg=", exit.BadUsage, "--svg is empty: "},
		{"payment --url=", exit.BadUsage, `invalid value "" for flag -url: it is the URL of a store; `},
		{"payment --url nonsense://h", exit.BadUsage, `nonsense://h/: `},
		{"cron --machines 2", exit.BadUsage, "--machines 2: it must be from 3 to 16"},
		{"cron --url " + dead, exit.Store, "redis://…@127.0.0.1:1/: open: the store cannot be reached: "},
		{"leader --svg nowhere/leader.svg", exit.BadUsage, "--svg nowhere/leader.svg: nowhere is no folder that you can write into"},
		{"leader --quick --url memory://", exit.BadUsage, "memory:// keeps locks within one process, and a demo has many; "},
		{"market", exit.BadUsage, "demo market needs --data, "},
		{"market --data redis", exit.BadUsage, "--data: the store's URL must begin with a scheme"},
		{"market --data postgres://h/d", exit.BadUsage, "--data postgres://h/d: the market is kept in Redis, "},
		{"market --data redis://localhost/many", exit.BadUsage, "--data redis://localhost/many: "},
		{"market --data redis://localhost --for 0s", exit.BadUsage, "--for 0s: it must be from 50ms to 1m0s"},
		{"market --data redis://localhost --quick --for 10s", exit.BadUsage, "--for 10s: with --quick it must be from 50ms to 200ms"},
		{"market --data " + dead, exit.Store, "redis://…@127.0.0.1:1/: open: the store cannot be reached: "},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			r := newUser(t).run(strings.Fields(tt.args)...)
			lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
			if last := lines[len(lines)-1]; r.code != tt.code || !strings.HasPrefix(last, "demo: "+tt.want) {
				t.Errorf("status %d, %s; want %d, %s", r.code, r.err, tt.code, tt.want)
			}
			warned := strings.Contains(r.err, "everybody on this machine can read the password")
			if wanted := strings.HasSuffix(tt.args, " "+dead); strings.Contains(r.err, "s3cret") || warned != wanted || len(lines) > 2 || !wanted && len(lines) > 1 {
				t.Errorf("said: %s; want one line, a warning if a flag has a password, and no password", r.err)
			}
		})
	}
}

// The help of each demo has its flags, and so has its section of the page.
func TestHelp(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t)
	all := u.run()
	for name, flags := range map[string][]string{
		"payment": {"orders", "processes", "data"}, "market": {"data", "for"}, "cron": {"machines"}, "leader": nil,
	} {
		_, section, _ := strings.Cut(string(page), "\n## `demo "+name+"`\n")
		section, _, _ = strings.Cut(section, "\n## ")
		asked, flagged := u.run("help", name), u.run(name, "--help")
		if asked != flagged || asked.code != 0 || asked.err != "" || !strings.Contains(all.out, "\n  "+name+" ") {
			t.Errorf("%s: %+v, and %+v, and %+v; want the same help, of which the program's has the name", name, asked, flagged, all)
		}
		for _, f := range append(flags, "quick", "json", "svg") {
			if !strings.Contains(asked.out, "\n  --"+f+" ") || !strings.Contains(section, "| `--"+f) {
				t.Errorf("--%s is missing in the help of %s, or in its section:\n%s", f, name, asked.out)
			}
		}
		if n := strings.Count(asked.out, "\n  --"); n != len(flags)+4 { // and --url
			t.Errorf("%s has %d flags; want %d", name, n, len(flags)+4)
		}
	}
}
