package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/inspect"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/golden"
	"github.com/stilelock/stile/internal/servertest"
)

// steady replaces what differs from run to run.
func steady(text string) string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	for _, r := range []struct{ pattern, to string }{
		{`"ticket": ?"[0-9]+"`, `"ticket": "TICKET"`},
		{`"token": ?"[0-9]+"`, `"token": "TOKEN"`},
		{`"pid": ?[0-9]+`, `"pid": PID`},
		{`"(since|remaining)": ?[0-9.]+`, `"$1": SECONDS`},
		{`"host": ?` + regexp.QuoteMeta(strconv.Quote(host)), `"host": "HOST"`},
		{`"(at|deadline)": ?"20[0-9-]+T[0-9:]+\.[0-9]{3}Z"`, `"$1": "TIME"`},
		{`"handle": ?"/[^"]+\.handle"`, `"handle": "FILE"`},
		{`"grant": ?"[0-9]+@/[^"]+\.handle"`, `"grant": "TOKEN@FILE"`},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.to)
	}
	return text
}

// crowd has three names in use: permits, readers before a writer, and a strange one.
func crowd(t *testing.T) *account {
	u := newAccount(t)
	u.must("lock", "app/permits", "--permits", "2", "--of", "5", "--owner", "ann", "--reason", "half of them")
	u.must("lock", "app/shared", "--read", "--owner", "bob")
	u.start(with("app/shared", idle, "--owner", "eve", "--reason", "to <write> & \"quote\"")...)
	until(t, "the writer waits", func() bool { return len(u.show("app/shared").Claims) == 2 })
	u.must("lock", "--handle", filepath.Join(u.home, "h"), "--", "\u202eevil 🔒")
	return u
}

func TestJSON(t *testing.T) {
	u := crowd(t)
	for _, tt := range []struct {
		file string
		args []string
	}{
		{"ls.json", []string{"ls", "--json"}}, {"ls-prefix.json", []string{"ls", "--json", "app/p"}},
		{"ls-none.json", []string{"ls", "--json", "nothing"}}, {"show.json", []string{"show", "--json", "app/shared"}},
		{"show-none.json", []string{"show", "--json", "nothing"}}, {"lock.json", []string{"lock", "--json", "another"}},
	} {
		text := u.must(tt.args...)
		if !json.Valid([]byte(text)) {
			t.Errorf("%q: not JSON: %s", tt.args, text)
		}
		golden.Is(t, tt.file, steady(text))
	}
}

func TestWatch(t *testing.T) {
	u := newAccount(t)
	p := u.start("watch", "a", "--json")
	var lines []string
	next := func(want int) {
		t.Helper()
		line := p.line()
		var v inspect.QueueView
		if err := json.Unmarshal([]byte(line), &v); err != nil || len(v.Claims) != want {
			t.Errorf("%d claims, want %d: %v: %s", len(v.Claims), want, err, line)
		}
		lines = append(lines, steady(line))
	}
	next(0)
	holder := u.start(with("a", idle, "--owner", "first")...)
	next(1)
	waiter := u.start(with("a", idle, "--owner", "second")...)
	next(2)
	holder.stdin.Close()
	next(1)
	waiter.stdin.Close()
	next(0)
	golden.Is(t, "watch.json", strings.Join(lines, "\n")+"\n")
	p.signal(2)
	if got := p.wait(); got != 130 {
		t.Errorf("interrupted: status %d, want 130", got)
	}
}

func TestTablesOfTheCommand(t *testing.T) {
	u := newAccount(t)
	u.start(with("a", idle, "--owner", "me", "--ttl", "59m")...).line()
	if got := u.must("ls"); !regexp.MustCompile(`(?s)^NAME +HOLD +WAIT +FIRST +SINCE +REMAINING\na +1 +0 +me on .* \(sh\) +\S+ +5[89]m\S*s\n$`).MatchString(got) {
		t.Error(got)
	}
	if got := u.must("show", "a"); !regexp.MustCompile(`(?s)^TICKET .*\n\d+ +holds +all +me +\S+ +\d+ +\S+ +5[89]m\S*s +sh\n$`).MatchString(got) {
		t.Error(got)
	}
	if got, want := u.must("show", "b"), "b is free: nobody holds it or waits for it\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBreak(t *testing.T) {
	u := newAccount(t)
	holder := u.start(with("a", idle, "--owner", "first", "--ttl", "6s")...)
	holder.line()
	waiter := u.start(with("a", idle, "--owner", "second", "--verbose")...)
	until(t, "the waiter waits", func() bool { return len(u.show("a").Claims) == 2 })
	second := u.show("a").Claims[1].Ticket
	out := u.must("break", "a", "--ticket", second, "--yes", "--reason", "not needed \"any\" more")
	want := regexp.MustCompile(`^time=\S+ level=INFO msg="claim removed by hand" name=a ticket=` + second +
		` state=waits holder="second on [^"]*" by="[^"]+" reason="not needed \\"any\\" more"\n$`)
	if !want.MatchString(out) {
		t.Errorf("got %s, want %s", out, want)
	}
	if claims := u.show("a").Claims; len(claims) == 0 || claims[0].Owner != "first" {
		t.Errorf("the wrong claim was removed: %+v", claims)
	}
	until(t, "the waiter comes back at the tail, since this store does not say who removed it", func() bool {
		claims := u.show("a").Claims
		return len(claims) == 2 && claims[1].Ticket != second && claims[1].Owner == "second"
	})
	if said := waiter.stderr.String(); !strings.Contains(said, "is gone from the queue, lost or removed by hand, and enters again") {
		t.Errorf("the waiter says %s", said)
	}
}

// With --ask the holder is told, and nothing is removed. A store that cannot carry it says so, and removes nothing.
func TestAsk(t *testing.T) {
	u := newAccount(t).at("memcached://" + servertest.Memcached(t, "-M").Addr)
	holder := u.start(with("a", idle, "--owner", "first", "--ttl", "6s")...)
	holder.line()
	u.start(with("a", idle, "--owner", "second")...)
	until(t, "the waiter waits", func() bool { return len(u.show("a").Claims) == 2 })
	claims := u.show("a").Claims
	want := regexp.MustCompile(`^time=\S+ level=INFO msg="claim asked for by hand" name=a ticket=` + claims[0].Ticket +
		` state=holds holder="first on [^"]*" by="[^"]+" reason="a deploy"\n$`)
	if out := u.must("break", "a", "--ask", "--reason", "a deploy"); !want.MatchString(out) {
		t.Errorf("got %s, want %s", out, want)
	}
	said := "stile: somebody asks for the lock a; it is released when CMD ends\n"
	until(t, "the holder is told", func() bool { return holder.stderr.String() == said })
	if now := u.show("a").Claims; len(now) != 2 || now[0].Ticket != claims[0].Ticket {
		t.Errorf("the queue is %+v; want the same claims as before, %+v", now, claims)
	}
	r := u.run("break", "a", "--ask", "--reason", "x", "--ticket", claims[1].Ticket)
	if r.code != exit.BadUsage || !strings.Contains(r.err, "only a holder can be asked") {
		t.Errorf("asking who waits: status %d, %s", r.code, r.err)
	}
	u = newAccount(t)
	u.must("lock", "a", "--owner", "first")
	r = u.run("break", "a", "--ask", "--reason", "x")
	if r.code == 0 || !strings.Contains(r.err, "sqlite cannot ask for a claim") || len(u.show("a").Claims) != 1 {
		t.Errorf("in a store that cannot: status %d, %s", r.code, r.err)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	u := newAccount(t)
	if got := u.must("version"); !strings.HasPrefix(got, "stile ") || strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := u.must("completion", shell); len(got) < 1000 {
			t.Errorf("%s: %q", shell, got)
		}
	}
	u.must("lock", "app/one")
	u.must("lock", "app/two")
	u.must("lock", "other")
	for _, verb := range []string{"show", "watch", "break", "run", "unlock"} {
		if got, want := u.must("__complete", verb, "app/"), "app/one\napp/two\n:4\n"; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", verb, got, want)
		}
	}
}
