package memcached

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// counting is a connection that counts its writes.
type counting struct {
	net.Conn
	writes *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(b) }

// A listing reads many values with one request.
func TestRequestsOfAListing(t *testing.T) {
	const names = 300
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		d := open(t, s.Addr, parameters)
		for i := range names {
			holds(t, d, claim(fmt.Sprint("name ", i), "a"))
		}
		var l *link
		switch d := d.(type) {
		case *Driver:
			l = d.exchanger.link
		case *Plain:
			l = d.link
		}
		var n atomic.Int64
		c := l.latest()
		c.mu.Lock()
		c.sock = counting{c.sock, &n}
		c.mu.Unlock()
		list, err := d.List(timely(t), &driver.Query{})
		if err != nil || len(list) != names {
			t.Errorf("list = %d names, %v; want %d", len(list), err, names)
		}
		if most := int64((names + getsAtOnce - 1) / getsAtOnce); n.Load() > most {
			t.Errorf("to list %d names took %d requests; want %d at most", names, n.Load(), most)
		}
	})
}
