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
