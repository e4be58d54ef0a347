package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// replace puts another server in this one's place that was up all along, such as a spare, or a promoted replica.
func (s *server) replace(keeps bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	s.report = quorum.Report{ID: fmt.Sprint("not ", s.report.ID), Up: time.Hour, Keeps: keeps, Reason: "it is a test"}
	s.store = memory.NewStore()
	s.last, s.entries = map[string]int64{}, map[string]entry{}
}

// A member does not vote if another server answers for it that was up all along, whatever this server keeps: it knows
// nothing of the former server's claims.
func TestReplacedMemberDoesNotVote(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		list := servers(3)
		d, _ := open(t, list, nil)
		holds(t, d, claim("replaced", "holder"))
		list[0].replace(keeps)
		list[1].replace(keeps)
		_, err := d.Enter(t.Context(), claim("replaced", "other"))
		says(t, err, "1 of 3 nodes take part, and a majority is 2: node s0: it does not vote: another server is in its place, "+
			"which may not have its claims, so not for another")
	}
}

// A restarted member that was the same server as another member for a while still waits until the longest lease is over.
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
	at(2, anew) // the restarted server answers for node 2
	quorum.Check(d)
	list[1].restart(false) // and for its own node
	quorum.Check(d)
	at(2, quorum.Report{ID: "run-2", Up: time.Hour, Keeps: true})
	quorum.Check(d) // it no longer answers for node 2
	quorum.Check(d)
	_, err := d.Enter(t.Context(), claim("twin", "x"))
	says(t, err, "1 of 3 nodes take part, and a majority is 2: node s1: it does not vote: it was started a short while ago")
}

// A restarted member that keeps everything from then on may have forgotten its earlier data: a Redis server that is
// configured to keep a log begins with an empty one.
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
	says(t, err, "1 of 3 nodes take part, and a majority is 2: node s0: it does not vote: it was started a short while ago "+
		"and may have forgotten claims (appendonly no)")
}

// lead makes the address of this server lead to another one.
func (s *server) lead(to *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	s.store, s.last, s.entries, s.report = to.store, to.last, to.entries, to.report
}

// A claim stands only on the servers that were given it, and on each once. By an address that leads elsewhere a client may
// see the claim twice on one of them, or on a server with a copy, while another client has gained the servers themselves.
func TestOnlyItsServersKeepAClaim(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, says string
		lead       func(t *testing.T, list []*server, c *driver.Claim)
	}{
		{
			"one server for all nodes", "it does not vote: it is the same server as node s0",
			func(_ *testing.T, list []*server, _ *driver.Claim) {
				list[1].lead(list[0])
				list[2].lead(list[0])
			},
		},
		{"copies", "it does not vote: another server is in its place", func(t *testing.T, list []*server, c *driver.Claim) {
			for i, s := range list[1:] {
				replica := newServer(fmt.Sprint("copy-", i))
				if p, err := (&member{replica.store.Driver(), replica}).Vote(t.Context(), c, c.Ticket); err != nil || !p.Holds {
					t.Fatal(p, err)
				}
				s.lead(replica)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list := servers(3)
			d, members := open(t, list, nil)
			heir, _ := open(t, list, nil) // takes the claim up, as another process
			c := claim("moved", "holder")
			holds(t, d, c)
			servertest.Until(t, "all servers have the claim", func() bool {
				for _, m := range members {
					if free, err := m.Free(t.Context(), c.Name); free || err != nil {
						return false
					}
				}
				return true
			})
			own := *c
			own.Ticket = 0
			tt.lead(t, list, &own)
			for _, d := range []*quorum.Driver{d, heir} {
				err := d.Renew(t.Context(), []*driver.Claim{c})[0].Err
				if says(t, err, tt.says); errors.Is(err, driver.ErrGone) {
					t.Errorf("a renewal = %v; want one that does not say that the claim is gone", err)
				}
			}
		})
	}
}
