package wire

import "time"

// trust tells until when the session lives for certain. A server of an ensemble keeps a session alive by hearing from
// its client, but it is the leader who ends sessions, and it hears of that from the client's server a moment later, if
// that is still connected to it: a server cut off from the others goes on answering pings and reads for a while, as does
// a leader that was replaced.
//
// So an answer counts from when its request was sent, but only once a later request has been agreed upon by a quorum:
// that shows that the client's server was still connected, and then the leader knew of what its server had heard a lag
// before. When the server heard a request, the client cannot know; it had by the time of its answer. So the later request
// must be sent a lag after that answer. A new leader gives every session its whole time anew. A lone server knows all at
// once. The model session.pml walks through this.
type trust struct {
	lone bool
	lag  time.Duration // between a server's hearing from us and the leader's knowing

	since time.Duration // the session lives for its timeout from here on, for certain
	heard []sign        // not yet known to have reached the leader, oldest first
}

// A sign is that a server heard from us: when the request was sent, and when the leader knows of it at the latest, if the
// server is connected to the leader.
type sign struct{ sent, reported time.Duration }

// note takes the answer to a request: when the one was sent, and when the other came.
func (t *trust) note(sent, answered time.Duration, agreed, direct bool) {
	if t.lone {
		t.since = max(t.since, sent)
		return
	}
	if agreed {
		i := 0
		for i < len(t.heard) && t.heard[i].reported <= sent {
			t.since = max(t.since, t.heard[i].sent)
			i++
		}
		t.heard = append(t.heard[:0], t.heard[i:]...)
	}
	s := sign{sent, answered + t.lag}
	if direct {
		s.reported = answered
	}
	// What reached the leader long ago is worth the newest of it only, for any request that is still out: so an idle
	// session, about which nobody agrees on anything, remembers a few signs and no more.
	old := 0
	for old+1 < len(t.heard) && t.heard[old+1].reported <= sent-2*t.lag {
		old++
	}
	t.heard = append(t.heard[:0], t.heard[old:]...)
	// One in every eighth of the lag is enough.
	if n := len(t.heard); n == 0 || direct || sent-t.heard[n-1].sent >= t.lag/8 {
		t.heard = append(t.heard, s)
	}
}
