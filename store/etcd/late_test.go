package etcd_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// Trap: a late Enter may reach a replica of the lock service after its claim was removed, and put the claim again. When a
// replica answers the client that its claim is gone, it has removed this second claim too.
func TestServedLateEnter(t *testing.T) {
	t.Parallel()
	direct := drive.Opener("etcd://" + servertest.Etcd(t).Addr)
	one := drive.Opener("stile://" + drive.Service(t, 1, direct))(t)
	another := drive.Opener("stile://" + drive.Service(t, 1, direct))(t)
	third := direct(t)
	for _, d := range []driver.Driver{one, another, third} {
		defer d.Close()
	}
	for _, tt := range []struct {
		name               string
		first, late, heard driver.Driver
	}{
		{"late at the other", one, another, one},
		{"late at the other, and heard there", one, another, another},
		{"late at the same, and heard at the other", one, one, another},
	} {
		for _, knows := range []bool{true, false} { // the first replica knows that the claim is gone
			c := drive.Claim(tt.name, rand.Text())
			drive.Holds(t, tt.first, c)
			if _, err := third.(driver.Breaker).Break(drive.Timely(t), &driver.BreakRequest{Name: c.Name}); err != nil {
				t.Fatal(err)
			}
			if knows {
				if err := drive.Renew(t, tt.first, c); !errors.Is(err, driver.ErrGone) {
					t.Fatalf("%s: renewal = %v; want ErrGone", tt.name, err)
				}
			}
			late := *c
			late.Ticket = 0
			drive.Holds(t, tt.late, &late)
			if _, err := tt.heard.Enter(drive.Timely(t), c); !errors.Is(err, driver.ErrGone) {
				t.Errorf("%s: enter = %v; want ErrGone", tt.name, err)
			}
			if n := drive.Listed(t, third); n != 0 {
				t.Fatalf("%s: %d claims are left when the client knows that its claim is gone; want none", tt.name, n)
			}
		}
	}
}
