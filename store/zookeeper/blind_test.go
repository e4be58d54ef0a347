package zookeeper

import (
	"slices"
	"strings"
	"testing"
)

// The traits warn if the servers cannot list the nodes of a session.
func TestNotesOfBlindServers(t *testing.T) {
	t.Parallel()
	d := newDriver()
	d.zk.Life.End() // it has no servers to ask
	says := func() bool {
		return slices.ContainsFunc(d.Traits().Remarks(), func(n string) bool {
			return strings.HasPrefix(n, strings.TrimSuffix(blindNote, "."))
		})
	}
	if says() {
		t.Error("the notes say so of servers that can tell")
	}
	if d.line.Blinded(); !says() {
		t.Errorf("the notes are %q; want one that says so", d.Traits().Remarks())
	}
}
