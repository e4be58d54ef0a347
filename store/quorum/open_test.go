package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/quorum"
)

// Members choose tickets together. A node that opens after New, with a store that is no member, takes no part.
func TestNodeOfAnotherKindOpensLater(t *testing.T) {
	t.Parallel()
	list := servers(3)
	var up atomic.Bool
	opened := make(chan *closed, 1)
	nodes := []quorum.Node{{Name: "late", Open: func(context.Context) (driver.Driver, error) {
		if !up.Load() {
			return nil, driver.Unreachable(errors.New("it is down"))
		}
		d := &closed{Driver: list[0].store.Driver(), closed: make(chan struct{})}
		select {
		case opened <- d:
		default:
		}
		return d, nil
	}}}
	for i, s := range list[1:] {
		nodes = append(nodes, quorum.Node{Name: fmt.Sprint("s", i), Driver: &member{s.store.Driver(), s}})
	}
	d, err := quorum.New(t.Context(), nodes, &quorum.Options{CheckEvery: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	up.Store(true)
	<-(<-opened).closed // the node was refused
	for n := range 20 {
		c := claim("name", fmt.Sprint("claim-", n))
		holds(t, d, c)
		if _, err := d.(driver.Lister).List(t.Context(), &driver.Query{Name: "name"}); err != nil {
			t.Errorf("list = %v", err)
		}
		leaves(t, d, c)
	}
}

// closed notes its end.
type closed struct {
	driver.Driver
	closed chan struct{}
}

func (c *closed) Close() error {
	close(c.closed)
	return c.Driver.Close()
}
