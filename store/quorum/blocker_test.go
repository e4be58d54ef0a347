package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// A refusing node says that another claim has the lock, or gives no answer.
type refusing struct {
	driver.Driver
	blocker driver.ClaimInfo
	err     error
}

func (r *refusing) Enter(context.Context, *driver.Claim) (driver.Place, error) {
	return driver.Place{Ahead: 1, Blocker: r.blocker}, r.err
}

// A node that has not heard that the former holder left shows it beside the present one. The present one is named, whatever the clocks
// are by which the nodes give tickets.
func TestLaterHolderIsNamed(t *testing.T) {
	t.Parallel()
	former := &refusing{blocker: driver.ClaimInfo{Ticket: 9e15, Since: time.Minute, Record: "former"}}
	present := &refusing{blocker: driver.ClaimInfo{Ticket: 1e15, Since: time.Second, Record: "present"}}
	silent := &refusing{err: errors.New("no answer")}
	for _, all := range [][]*refusing{{former, present, silent}, {present, silent, former}, {silent, former, present}} {
		var nodes []quorum.Node
		for i, r := range all {
			r.Driver = memory.NewStore().Driver()
			nodes = append(nodes, quorum.Node{Name: string(rune('a' + i)), Driver: r})
		}
		d, err := quorum.New(t.Context(), nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := claim("name", "new")
		c.Try = true
		p, err := d.Enter(t.Context(), c)
		if err != nil || p.Holds || p.Blocker.Record != "present" {
			t.Errorf("enter = %+v, %v; want that the present holder is in the way", p, err)
		}
		d.Close()
	}
}
