package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// What a store refuses for want of a right is refused the next time too: 64, so that a retry on 69 ends.
func TestMissingRightIsFinal(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	server.Redis([]string{"ACL", "SETUSER", "eve", "on", ">secret", "~elsewhere/*", "&*", "+@all"})
	zoo := servertest.ZooKeeper(t).Addr
	newAccount(t).at("zk://joe:one@"+zoo).must("run", "a", "--", "true") // its node is joe's from now on
	for _, tt := range []struct{ url, want string }{
		{"redis://eve:secret@" + server.Addr, "NOPERM"},
		{"zk://eve:two@" + zoo, `"eve"`},
	} {
		for _, verb := range []string{"run a --wait 30s -- true", "run a --try -- true"} {
			got := newAccount(t).at(tt.url).run(strings.Fields(verb)...)
			if got.code != exit.BadUsage || !strings.Contains(got.err, tt.want) || strings.Count(got.err, "\n") != 1 {
				t.Errorf("%s: stile %s: status %d, %q; want %d and %s", tt.url, verb, got.code, got.err, exit.BadUsage, tt.want)
			}
		}
	}
}

// A server of another kind is named, within --wait.
func TestServerOfAnotherKind(t *testing.T) {
	t.Parallel()
	addr := servertest.Redis(t).Addr
	for scheme, path := range map[string]string{"zk": "", "etcd": "", "consul": "", "postgres": "/x", "mysql": "/x"} {
		got := newAccount(t).at(scheme+"://"+addr+path).run("run", "a", "--wait", "1s", "--", "true")
		if got.code != exit.Store || !strings.Contains(got.err, addr) || strings.Contains(got.err, "context deadline") {
			t.Errorf("%s:// to a Redis: status %d, %q; want %d and the server", scheme, got.code, got.err, exit.Store)
		}
	}
}
