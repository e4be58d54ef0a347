//go:build unix

package opening

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// A lease that is shorter than ZooKeeper's usual session has a session of its length, unless the URL says otherwise.
func TestSessionOfTheLease(t *testing.T) {
	for _, tt := range []struct {
		url  string
		ttl  time.Duration
		want string
	}{
		{"zk://h", 5 * time.Second, "zk://h?session=5s"},
		{"zks://h?acl=open", 1500 * time.Millisecond, "zks://h?acl=open&session=1.5s"},
		{"zk://h?session=20s", 5 * time.Second, "zk://h?session=20s"},
		{"zk://h", 15 * time.Second, "zk://h"},
		{"zk://h", 0, "zk://h"},
		{"redis://h", 5 * time.Second, "redis://h"},
	} {
		a, err := driver.ParseAddress(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := WithSession(a, tt.url, tt.ttl); got != tt.want {
			t.Errorf("%s with ttl %v: %s; want %s", tt.url, tt.ttl, got, tt.want)
		}
	}
}
