//go:build unix

package servertest

import (
	"io"
	"net"
	"sync"
)

// A Switch stands between clients and servers as an address that moves does: a virtual IP, a DNS name, a balancer. It leads
// each new connection to the server that it points to, and leaves those that there are where they lead.
type Switch struct {
	Addr string // what clients connect to

	mu     sync.Mutex // guards what follows
	target string     // empty: the switch has ended
	open   map[net.Conn]bool
}

// NewSwitch starts a switch that points to an address. It ends with the test.
func NewSwitch(t TB, target string) *Switch {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := &Switch{Addr: l.Addr().String(), target: target, open: map[net.Conn]bool{}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { s.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.To("")
		s.Drop()
		work.Wait()
	})
	return s
}

// To points to another address from now on.
func (s *Switch) To(target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = target
}

// Drop ends the connections that there are.
func (s *Switch) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	clear(s.open)
}

// Open returns how many connections of clients there are.
func (s *Switch) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) / 2
}

func (s *Switch) serve(client net.Conn) {
	defer client.Close()
	s.mu.Lock()
	target := s.target
	s.mu.Unlock()
	if target == "" {
		return
	}
	server, err := net.DialTimeout("tcp4", target, dialWithin)
	if err != nil {
		return
	}
	defer server.Close()
	s.mu.Lock()
	ended := s.target == ""
	if !ended {
		s.open[client], s.open[server] = true, true
	}
	s.mu.Unlock()
	if ended {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, client)
	delete(s.open, server)
}
