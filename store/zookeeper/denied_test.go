package zookeeper_test

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper"
)

// The protocol's bits of permissions.
const (
	mayDelete = 8
	mayAll    = 31
)

// grant sets the permissions of everybody at a path.
func grant(t *testing.T, addr, path string, may int32) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(b []byte) []byte {
		if _, err := c.Write(append(put([]byte(nil), int32(len(b))), b...)); err != nil {
			t.Fatal(err)
		}
		answer, err := frame(c)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	hello := put(put(put(put([]byte(nil), int32(0)), int64(0)), int32(10_000)), int64(0))
	ask(append(putText(hello, strings.Repeat("\x00", 16)), 0))
	set := putText(put(put([]byte(nil), int32(1)), int32(setList)), path)
	set = put(put(set, int32(1)), may)
	answer := ask(put(putText(putText(set, "world"), "anyone"), int32(-1)))
	if code := int32(binary.BigEndian.Uint32(answer[12:])); code != 0 {
		t.Fatalf("the access list of %s is refused with %d", path, code)
	}
}

// A client that may no longer delete its claim's node learns at once which right is missing, and how long the node stays.
// The driver then tries again only now and then, while it has other claims.
func TestLeaveIsDenied(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	for layout, parent := range map[string]string{"mutex": "/stile/mutex", "semaphore": "/stile/semaphore/leases"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			a, d := newAdmin(t, s.Addr), open(t, "zk://"+s.Addr+"?layout="+layout)
			c, other := claim(layout), claim(layout+"2")
			enter(t, d, c, true)
			grant(t, s.Addr, parent, mayAll-mayDelete)
			err := d.Leave(t.Context(), &driver.Release{Claim: c})
			refuses(t, "a release", err, true, false,
				"zookeeper does not let a client without user and password delete what is under "+parent+": its access list has no "+
					"such permission; the claim's node stands until the session ends, about 10s after the client is gone at the latest")
			if n := d.(*zookeeper.Driver).LocalClaims(); n != 0 {
				t.Errorf("the driver goes on with %d claims; want none", n)
			}
			if left := a.children(parent); len(left) != 1 {
				t.Errorf("after the release there are %q; want the claim's node", left)
			}
			grant(t, s.Addr, parent, mayAll)
			enter(t, d, other, true)
			servertest.Until(t, "the node is removed", func() bool { return len(a.children(parent)) == 0 })
			leave(t, d, other)
		})
	}
}
