package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/memory"
	"github.com/stilelock/stile/quorum"
)

// replace puts another server in this one's place that was up all along, such as a spare, or a replica that is promoted.
func (s *server) replace(keeps bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	s.report = quorum.Report{ID: fmt.Sprint("not ", s.report.ID), Up: time.Hour, Keeps: keeps, Reason: "it is a test"}
	s.store = memory.NewStore()
	s.last, s.tickets = map[string]int64{}, map[string]int64{}
}

// A member that another server answers for, which was up all along, does not vote, whatever that one keeps: it knows nothing
// of the claims that the first one had.
func TestReplacedMemberDoesNotVote(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		list := servers(3)
		d, _ := open(t, list, nil)
		holds(t, d, claim("replaced", "holder"))
		list[0].replace(keeps)
		list[1].replace(keeps)
		_, err := d.Enter(t.Context(), claim("replaced", "other"))
		says(t, err, "1 of 3 nodes take part, and a majority is 2: node s0: it does not vote: another server is in its place, which may not have its claims, so not for another")
	}
}

// A member that was started anew, and was the same server as another member for a while, still waits until the longest lease
// is over.
func TestRestartedTwinDoesNotVote(t *testing.T) {
	t.Parallel()
	list := servers(3)
	d, _ := open(t, list, nil)
	at := func(i int, r quorum.Report) {
		list[i].mu.Lock()
		defer list[i].mu.Unlock()
		list[i].starts++
		list[i].report = r
	}
	anew := quorum.Report{ID: "run-1+", Reason: "it is a test"}
	at(2, anew) // by the address of node 2
	quorum.Check(d)
	list[1].restart(false) // and by its own
	quorum.Check(d)
	at(2, quorum.Report{ID: "run-2", Up: time.Hour, Keeps: true})
	quorum.Check(d) // no more by that of node 2
	quorum.Check(d)
	_, err := d.Enter(t.Context(), claim("twin", "x"))
	says(t, err, "1 of 3 nodes take part, and a majority is 2: node s1: it does not vote: it was started a short while ago")
}

// A member that was started anew, and keeps everything from then on, may have forgotten what it had before: a Redis server that is
// told by its configuration to keep a log begins with an empty one.
func TestMemberThatKeepsFromNowOnDoesNotVote(t *testing.T) {
	t.Parallel()
	list := servers(3)
	for _, s := range list {
		s.report.Keeps, s.report.Reason = false, "appendonly no"
	}
	d, _ := open(t, list, nil)
	holds(t, d, claim("keeps", "holder"))
	for _, s := range list[:2] {
		s.restart(false)
		s.mu.Lock()
		s.report.Keeps, s.report.Reason = true, ""
		s.mu.Unlock()
	}
	_, err := d.Enter(t.Context(), claim("keeps", "other"))
	says(t, err, "1 of 3 nodes take part, and a majority is 2: node s0: it does not vote: it was started a short while ago and may have forgotten claims (appendonly no)")
}
