package consul

import (
	"net"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Each row of the table matches some answer, and the error has the row's text and outcome.
func TestFaults(t *testing.T) {
	t.Parallel()
	a := &agent{host: "host", ctx: t.Context()}
	seen := map[*fault]bool{}
	for i := range faults {
		f := &faults[i]
		status := f.status
		if status == 0 {
			status = 400
		}
		a.dc, a.token = "", "hunter2"
		if f.elsewhere {
			a.dc = "other"
		}
		if f.anonymous {
			a.token = ""
		}
		text := "some words: " + f.has
		seen[faultOf(status, text, a.token != "", a.dc != "")] = true
		err := a.refused(status, text)
		says(t, err, strings.ReplaceAll(f.says, "{host}", "host"))
		if driver.OutcomeOf(err) != f.outcome || driver.IsUnreachable(err) != f.passes {
			t.Errorf("%v: outcome %v, passes %v; want %+v", err, driver.OutcomeOf(err), driver.IsUnreachable(err), *f)
		}
	}
	if len(seen) != len(faults) {
		t.Errorf("%d of %d rows are ever looked at", len(seen), len(faults))
	}
}

// A server with too many connections refuses more, and has not applied the request.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	const most = 10
	s := servertest.Consul(t, map[string]any{"limits": map[string]any{"http_max_conns_per_client": most}})
	d := open(t, "consul://"+s.Addr)
	d.agent.client.CloseIdleConnections()
	var open []net.Conn
	for range most {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	c := claimOn("name")
	var err error
	servertest.Until(t, "the server has enough", func() bool {
		d.agent.client.CloseIdleConnections()
		_, err = d.Enter(timely(t), c)
		if err != nil && (!driver.IsUnreachable(err) || strings.Contains(err.Error(), "%!")) {
			t.Fatalf("enter = %v; want that it may work later", err)
		}
		return err != nil && strings.Contains(err.Error(), "consul refuses more requests or connections")
	})
	if !driver.NotApplied(err) || !driver.IsUnreachable(err) {
		t.Errorf("%v: want it not applied, and that it may work later", err)
	}
	for _, c := range open {
		c.Close()
	}
	servertest.Until(t, "the claim enters", func() bool {
		_, err := d.Enter(timely(t), c)
		return err == nil
	})
}
