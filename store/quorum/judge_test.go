package quorum

import (
	"testing"
	"time"
)

// A server that was up when a member was last asked has not been restarted, however slow the answer was.
func TestReplacedAfterASlowAnswer(t *testing.T) {
	t.Parallel()
	for born, barred := range map[time.Duration]bool{9 * time.Second: true, 12 * time.Second: false} {
		n := &node{all: &nodes{o: &Options{MaxTTL: time.Minute, ClockStep: time.Second}}}
		n.all.list = []*node{n}
		answers := func(id string, up, sent, came time.Duration) {
			n.admitVoter(&Report{ID: id, Up: up, Clock: time.Unix(1e9, 0).Add(came), Keeps: true}, 0, sent, came)
		}
		answers("first", time.Hour, 0, time.Millisecond)
		answers("first", time.Hour, 10*time.Second, 13*time.Second)
		const came = 14 * time.Second
		answers("second", came-born, came-time.Millisecond, came)
		if (n.why != "") != barred {
			t.Errorf("a server that began at %v is barred with %q; want %v", born, n.why, barred)
		}
	}
}
