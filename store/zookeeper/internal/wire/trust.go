package wire

import "time"

// trust computes until when the session certainly lives. A server of an ensemble keeps a session alive when it receives
// something from the client. But the leader ends sessions, and it learns of that sign a moment later from the client's
// server, if that server is still connected to the leader. A server that is cut off from the others still answers pings and
// reads for a while, and so does a deposed leader.
//
// So an answer counts from the time when its request was sent, but only once a quorum has agreed to a later request. This
// shows that the client's server was still connected, and that the leader knew of all signs that this server had received a
// lag earlier. The client does not know when a server received a request, only that it had received it before it answered.
// So the later request must be sent a lag after that answer. A new leader gives every session its whole timeout again. A
// lone server is its own leader, and needs no lag. The model session.pml walks through this.
type trust struct {
	lone bool
	lag  time.Duration // time from a sign's arrival at a server until the leader knows of it

	since time.Duration // from here on the session certainly lives for its timeout
	heard []sign        // signs not yet known to have reached the leader, oldest first
}

// A sign is a request that a server has received: when it was sent, and when the leader knows of it at the latest, if the
// server is connected to the leader.
type sign struct{ sent, reported time.Duration }

// note takes the answer to a request that was sent at one moment and answered at the other.
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
	// Of all signs that reached the leader long ago, only the newest matters, whichever unanswered request is agreed on
	// next. So an idle session, in which nobody agrees on anything, remembers only a few signs.
	old := 0
	for old+1 < len(t.heard) && t.heard[old+1].reported <= sent-2*t.lag {
		old++
	}
	t.heard = append(t.heard[:0], t.heard[old:]...)
	// One sign in every eighth of the lag is enough.
	if n := len(t.heard); n == 0 || direct || sent-t.heard[n-1].sent >= t.lag/8 {
		t.heard = append(t.heard, s)
	}
}
