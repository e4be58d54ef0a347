//go:build unix

package servertest

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// A Link stands between clients and a server as a network does: what it gets it passes on a while later, in order, in each
// direction of each connection. Any number of requests are under way on it at once.
//
// A timer fires late, by a millisecond on some machines, so a round trip takes longer than twice the delay; see
// [RoundTrip].
type Link struct {
	Addr  string // what clients connect to
	delay time.Duration
}

// NewLink starts a link to an address. It ends with the test.
func NewLink(t TB, target string, delay time.Duration) *Link {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	l := &Link{Addr: listener.Addr().String(), delay: delay}
	var (
		work sync.WaitGroup
		mu   sync.Mutex // guards open and closed
		open = map[net.Conn]bool{}
		done bool
	)
	work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.DialTimeout("tcp4", target, dialWithin)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			if done {
				client.Close()
				server.Close()
			}
			open[client], open[server] = true, true
			mu.Unlock()
			end := func() {
				client.Close()
				server.Close()
				mu.Lock()
				defer mu.Unlock()
				delete(open, client)
				delete(open, server)
			}
			work.Go(func() { l.carry(&work, server, client, end) })
			work.Go(func() { l.carry(&work, client, server, end) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		done = true
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return l
}

// A parcel is data that came at once, with the time when it goes on.
type parcel struct {
	data []byte
	at   time.Time
}

// underWay is how many parcels a direction of a connection holds before it reads no more.
const underWay = 1024

// carry passes on what comes on one connection, until either is closed; then it closes both.
func (l *Link) carry(work *sync.WaitGroup, to io.Writer, from io.Reader, end func()) {
	parcels := make(chan parcel, underWay)
	work.Go(func() {
		defer end()
		for p := range parcels {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				end() // so that the reader below ends too
			}
		}
	})
	defer close(parcels)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			parcels <- parcel{slices.Clone(buffer[:n]), time.Now().Add(l.delay)}
		}
		if err != nil {
			return
		}
	}
}

// RoundTrip measures how long a byte and its answer take over a link with a delay: the median of some, one after the other.
func RoundTrip(t TB, delay time.Duration) time.Duration {
	t.Helper()
	const times = 51
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c) // ends when the asker closes
	}()
	c, err := net.DialTimeout("tcp4", NewLink(t, listener.Addr().String(), delay).Addr, dialWithin)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer c.Close()
	took := make([]time.Duration, times)
	for i := range took {
		begin := time.Now()
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatalf("%v", err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatalf("%v", err)
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[times/2]
}
