package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// shards returns the URL of two servers' names, with a password that they do not ask for if one is given.
func shards(t *testing.T, password string) string {
	if password != "" {
		password = ":" + password + "@"
	}
	return fmt.Sprintf("shard://?stores=one=redis://%s%s;two=redis://%[1]s%[3]s", password, servertest.Redis(t).Addr, servertest.Redis(t).Addr)
}

// What the command does on a store, it does on Tair in each layout, and on stores together.
func TestTairAndShards(t *testing.T) {
	t.Parallel()
	tair := "tair://" + servertest.Tair(t).Addr
	for name, url := range map[string]string{
		"queue": tair + "?prefix=queue/", "setnx": tair + "?layout=setnx&prefix=setnx/", "exset": tair + "?layout=exset&prefix=exset/",
		"shards": shards(t, ""),
	} {
		t.Run(name, func(t *testing.T) {
			u := newAccount(t).at(url)
			u.lock("deploy", "--owner", "ann", "--reason", "release 7")
			for i := range 5 {
				u.lock(fmt.Sprint("app/", i))
			}
			if got := strings.Count(u.must("ls", "app/"), "app/"); got != 5 {
				t.Errorf("ls has %d names; want 5", got)
			}
			if v := u.show("deploy"); len(v.Claims) != 1 || v.Claims[0].Owner != "ann" || v.Claims[0].Reason != "release 7" {
				t.Errorf("show = %+v; want the claim of ann", v.Claims)
			}
			other := newAccount(t).at(url) // the shell that has the handle is to unlock it
			if r := other.run("run", "deploy", "--try", "--", "true"); r.code != 75 || !strings.Contains(r.err, "ann") {
				t.Errorf("run --try = %d, %s; want 75, because of ann", r.code, r.err)
			}
			u.must("renew", "deploy")
			u.must("break", "deploy", "--reason", "stuck", "--yes")
			other.must("run", "deploy", "--", "true")
			u.must("unlock", "app/1")
			u.demo("tickets", "--processes", "3", "--tickets", "15")
		})
	}
}

// Passwords of the stores in a URL, or in the file that it names, are never shown.
func TestPasswordsOfShardsAreNeverShown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stores")
	if err := os.WriteFile(file, []byte("one=redis://:"+canary+"@127.0.0.1:1\ntwo=redis://u:"+canary+"@"+liar(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := servertest.Redis(t, "--requirepass", "other").Addr
	u := newAccount(t)
	for _, url := range []string{
		"shard://" + file, shards(t, canary),
		"shard://?stores=one=redis://:" + canary + "@" + locked, "shard://?stores=one=redis://:" + canary + "@" + locked + "&x=1",
		"shard://?stores=redis://:" + canary + "@" + locked, "shard://?stores=one=redis://:" + canary + "@h:x",
		"shard://?stores=one=memory://&previous=one;two=redis://:" + canary + "@" + locked, "shard://:" + canary + "@h?stores=one=memory://",
		"shard://?stores=one*" + canary + "=memory://", "shard://?stores=one=bogus://:" + canary + "@h",
	} {
		for _, args := range [][]string{{"ls", "--url", url}, {"run", "a", "--url", url, "--", "env"}} {
			if r := u.run(args...); strings.Contains(r.out+r.err, canary) {
				t.Errorf("%s --url %s shows the password: %s%s", args[0], url, r.out, r.err)
			}
		}
		if r := (&account{t: t, home: u.home, env: u.env}).at(url).run("run", "a", "--", "true"); strings.Contains(r.out+r.err, canary) {
			t.Errorf("run with the URL in the environment shows the password of %s: %s%s", url, r.out, r.err)
		}
	}
	if r := u.run("ls", "--url", "shard://?stores=one=memory://u:"+canary+"@h"); !strings.Contains(r.err, "everybody on this machine can read the password") {
		t.Errorf("ls with a password in a store's URL says %q; want a warning", r.err)
	}
}
