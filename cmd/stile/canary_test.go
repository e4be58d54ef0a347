package main

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/grant"
	"github.com/stilelock/stile/internal/servertest"
)

const canary = "hunter2-canary"

// The password of a URL is never shown, whatever goes wrong, and wherever the URL is put by mistake.
func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	locked := servertest.Redis(t, "--requirepass", "other")
	open := servertest.Redis(t)
	noise := liar(t)
	var urls []string
	for _, scheme := range []string{"redis", "rediss", "redis+sentinel", "redis+cluster", "sqlite", "memory", "bogus", "", "redis!"} {
		for _, host := range []string{"127.0.0.1:1", locked.Addr, open.Addr, noise, "no.such.host.invalid", "h:x", "", "127.0.0.1:1/x%zz"} {
			urls = append(urls, scheme+"://user:"+canary+"@"+host)
		}
	}
	urls = append(urls,
		"redis://:"+canary+"@127.0.0.1:1?password="+canary, "redis://h?sentinel_password="+canary+"&x=1",
		"redis+sentinel://h/m?sentinel_password="+canary+"%zz", canary, "user:"+canary+"@host", "redis://user:"+canary)
	u := newAccount(t)
	check := func(t *testing.T, how string, r result) {
		t.Helper()
		if strings.Contains(r.out+r.err, canary) {
			t.Errorf("%s shows the password: %s%s", how, r.out, r.err)
		}
	}
	calls := 0
	var wg sync.WaitGroup
	room := make(chan bool, 48) // most of the time is spent waiting for answers that do not come
	call := func(how string, run func() result) {
		calls++
		room <- true
		wg.Go(func() {
			check(t, how, run())
			<-room
		})
	}
	for _, url := range urls {
		call("STILE_URL="+url, func() result { return (&account{t: t, home: u.home, env: slices.Clone(u.env)}).at(url).run("ls") })
		call("--url "+url, func() result { return u.run("ls", "--url", url) })
	}
	bad := "redis://user:" + canary + "@127.0.0.1:1"
	for _, args := range [][]string{
		{bad}, {"run", bad}, {"run", "a", bad}, {"run", "a", "--ttl", bad, "--", "true"}, {"run", "a", "--", bad},
		{"run", "a", "--url", bad, "--", "true"}, {"run", "a", "--url=" + bad, "--", "true"}, {"run", "a", "--of", bad, "--", "true"},
		{"lock", "a", "--url", bad}, {"lock", "a", "--handle", bad, "--url", bad}, {"unlock", "a", "--url", bad}, {"renew", "a", "--url", bad},
		{"unlock", "--handle", bad}, {"show", "a", "--url", bad}, {"watch", "a", "--url", bad}, {"ls", "a", bad},
		{"break", "a", "--yes", "--reason", "x", "--url", bad}, {"break", "a", "--ticket", bad, "--reason", "x", "--yes"},
		{"demo", "tickets", "--url", bad}, {"demo", "payment", "--url", bad}, {"demo", bad}, {"cron", bad}, {"version", bad}, {"completion", bad}, {"__complete", "show", "--url", bad, ""},
		{"help", bad}, {"show", "--url", bad, "--help"},
	} {
		call(strings.Join(args, " "), func() result { return u.run(args...) })
	}
	wg.Wait()
	if calls < 150 {
		t.Errorf("only %d calls were made", calls)
	}
}

// A password that is accepted is not shown either, nor kept in a handle, nor handed to CMD but by STILE_URL as it was.
func TestGoodPasswordIsNeverShown(t *testing.T) {
	server := servertest.Redis(t, "--requirepass", canary)
	u := newAccount(t).at("redis://:" + canary + "@" + server.Addr)
	out := u.lock("a")
	handle, err := grant.Read(field(t, out, "handle"))
	if err != nil {
		t.Fatal(err)
	}
	all := out + handle.Store + u.must("ls") + u.must("show", "a", "--json") + u.must("unlock", "a")
	if strings.Contains(all, canary) {
		t.Errorf("the password is shown: %s", all)
	}
	if got := u.run("run", "b", "--url", "redis://:"+canary+"@"+server.Addr, "--", "env"); got.code != 0 ||
		!strings.HasPrefix(got.err, "stile: warning: everybody on this machine can read the password in --url") || strings.Contains(got.out+got.err, canary) {
		t.Errorf("%+v", got)
	}
}

// liar answers everything with the wrong thing, which may not even arrive.
func liar(t *testing.T) string {
	t.Helper()
	return servertest.Impostor(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "-ERR bad password '"+canary+"' for redis://user:"+canary+"@host\r\n")
		c.Close()
	})
}
