package consul

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// The driver takes a part of the connections that the agent allows. However many claims hold, a waiter has its own query, so
// that it need not poll.
func TestQueriesForWaiters(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, map[string]any{"limits": map[string]any{"http_max_conns_per_client": 20}})
	d := open(t, "consul://"+s.Addr)
	d.Alert(func(...string) {})
	most := cap(d.queries.all)
	if most != 12 {
		t.Errorf("of 20 connections, %d are for blocking queries; want 12", most)
	}
	for i := range most {
		holds(t, d, claimOn(fmt.Sprint("held", i)))
	}
	holding := cap(d.queries.holding)
	servertest.Until(t, "holders have their queries", func() bool { return len(d.queries.holding) == holding })
	c := claimOn("held0")
	waits(t, d, c)
	go func() { _, _ = d.Await(t.Context(), c) }() // until the driver is closed
	servertest.Until(t, "the waiter has a query", func() bool { return d.queries.open() == holding+1 })
}

// Without a limit of the agent, the driver has one.
func TestQueriesWithoutLimit(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, map[string]any{"limits": map[string]any{"http_max_conns_per_client": 0}})
	d := open(t, "consul://"+s.Addr)
	if got, want := cap(d.queries.all), cap(queriesOf(mostLimit).all); got != want {
		t.Errorf("the driver has %d queries; want %d", got, want)
	}
}
