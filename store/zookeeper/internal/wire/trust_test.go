package wire

import (
	"testing"
	"time"
)

func TestTrust(t *testing.T) {
	type answer struct {
		sent           time.Duration
		agreed, direct bool
		late           time.Duration // how long the answer took
	}
	const lag = 25
	tests := []struct {
		name    string
		lone    bool
		answers []answer
		want    time.Duration
	}{
		{"nothing yet", false, nil, 0},
		{"a lone server knows at once", true, []answer{{sent: 10}, {sent: 20}}, 20},
		{"answers that nobody agreed to count for nothing", false, []answer{{sent: 10}, {sent: 50}, {sent: 90}}, 0},
		{
			"agreement counts for what was heard a lag before", false,
			[]answer{{sent: 10}, {sent: 50}, {sent: 76, agreed: true}}, 50,
		},
		{"and not for later", false, []answer{{sent: 10}, {sent: 50}, {sent: 74, agreed: true}}, 10},
		{"nor for itself", false, []answer{{sent: 10, agreed: true}}, 0},
		{"but later it does", false, []answer{{sent: 10, agreed: true}, {sent: 35, agreed: true}}, 10},
		{"taking up a session goes to the leader", false, []answer{{sent: 10, direct: true}, {sent: 11, agreed: true}}, 10},
		{
			"a server may have heard a request as late as it answered that", false,
			[]answer{{sent: 10, late: 60}, {sent: 50, agreed: true, late: 21}}, 0,
		},
		{
			"and tells of it a lag later", false,
			[]answer{{sent: 10, late: 60}, {sent: 50, late: 21}, {sent: 94, agreed: true}, {sent: 95, agreed: true}}, 10,
		},
		{
			"trust does not go back", false,
			[]answer{{sent: 50}, {sent: 80, agreed: true}, {sent: 20}, {sent: 81, agreed: true}}, 50,
		},
	}
	for _, test := range tests {
		trust := trust{lone: test.lone, lag: lag}
		for _, a := range test.answers {
			trust.note(a.sent, a.sent+a.late, a.agreed, a.direct)
		}
		if trust.since != test.want {
			t.Errorf("%s: trusted from %d on; want %d", test.name, trust.since, test.want)
		}
	}
}

// Memory does not grow while a session is idle, and the first agreement after that counts as usual.
func TestIdleTrustIsBounded(t *testing.T) {
	const lag, every, beats = time.Second, 700 * time.Millisecond, 100_000
	trust := trust{lag: lag}
	for sent := time.Duration(0); sent < beats*every; sent += every {
		trust.note(sent, sent, false, false)
	}
	if n := len(trust.heard); n > 30 {
		t.Errorf("%d signs of life are remembered; want a few", n)
	}
	trust.note(beats*every, beats*every, true, false)
	if behind := beats*every - trust.since; behind > lag+every {
		t.Errorf("trust is %v behind; want little more than the lag", behind)
	}
}

// Memory does not grow with the number of answers.
func TestTrustIsBounded(t *testing.T) {
	trust := trust{lag: time.Second}
	for sent := time.Duration(0); sent < 10*time.Second; sent += time.Millisecond {
		trust.note(sent, sent, sent%(100*time.Millisecond) == 0, false)
	}
	if n := len(trust.heard); n > 20 {
		t.Errorf("%d signs of life are remembered; want a few", n)
	}
	if behind := 10*time.Second - trust.since; behind > 1500*time.Millisecond {
		t.Errorf("trust is %v behind; want little more than the lag", behind)
	}
}

// A refusal by one server proves nothing about a quorum; a refusal by the ensemble does.
func TestRefusalOfOneServer(t *testing.T) {
	for code, want := range map[Code]time.Duration{0: 10, NoNode: 10, Throttled: 0, Unimplemented: 0} {
		s := &Session{trust: trust{heard: []sign{{sent: 10, reported: 10}}}}
		call := Agree("/")
		call.xid, call.sent = 1, 20
		c := &conn{s: s, waiting: []*Call{call}}
		_ = c.answer(1, 0, code, nil)
		if s.trust.since != want {
			t.Errorf("after the answer %q the session is trusted from %d on; want %d", code, s.trust.since, want)
		}
	}
}
