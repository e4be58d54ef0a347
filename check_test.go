package stile_test

import (
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// TestLookingAtALeaseCostsNothing checks that the calls for the line before a write allocate nothing, and do not wait for
// other users of the client.
func TestLookingAtALeaseCostsNothing(t *testing.T) {
	c, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Unlock() }()
	c.HoldStill("x", func() { // while the name is locked inside the client
		for name, look := range map[string]func(){
			"Check":    func() { _ = lease.Check() },
			"Deadline": func() { _ = lease.Deadline() },
			"State":    func() { _ = lease.State() },
		} {
			if n := testing.AllocsPerRun(100, look); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	})
}
