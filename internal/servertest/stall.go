//go:build unix

package servertest

import (
	"io"
	"net"
	"sync"
)

// A Stall stands between one client and a server. It can have the client stand still after so many messages, as one that is
// stopped, or whose machine freezes, in the middle of a request: its connections stay open and say nothing more.
type Stall struct {
	Addr string // what the client connects to

	listen  net.Listener
	target  string
	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	state   stallState
	left    int // messages that are passed on before it stands still
	open    map[net.Conn]bool
}

// A stallState decides what a Stall does with the client's messages.
//
//	passing ──After──► counting ──the last message──► still ──the server ends a connection──► ended
//	   ▲                  │                             │                                       │
//	   └──────────────────┴───────────Pass──────────────┴───────────────────────────────────────┘
type stallState int

const (
	passing stallState = iota
	counting
	still
	ended
)

// NewStall starts one in front of an address. It ends with the test.
func NewStall(t TB, target string) *Stall {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := &Stall{Addr: l.Addr().String(), listen: l, target: target, open: map[net.Conn]bool{}}
	s.changed = sync.NewCond(&s.mu)
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
		s.Pass()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		work.Wait()
	})
	return s
}

// After stops the client when it has sent so many messages more, each as the client wrote it; 0 is at once.
func (s *Stall) After(messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.left = counting, messages
	if messages == 0 {
		s.state = still
	}
}

// Still reports whether the client stands still, and the server has not ended a connection of it since.
func (s *Stall) Still() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == still
}

// Pass lets the client go on.
func (s *Stall) Pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = passing
	s.changed.Broadcast()
}

func (s *Stall) serve(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp4", s.target, dialWithin)
	if err != nil {
		return
	}
	defer server.Close()
	s.mu.Lock()
	s.open[client], s.open[server] = true, true
	s.mu.Unlock()
	var both sync.WaitGroup
	left := false // the client ended it, as one does that asked whether the server has TLS
	both.Go(func() {
		defer server.Close()
		s.pass(server, client)
		s.mu.Lock()
		defer s.mu.Unlock()
		left = true
	})
	both.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, server) // until one of them is closed
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state == still && !left {
			s.state = ended
		}
	})
	both.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, client)
	delete(s.open, server)
}

// pass copies what the client sends, message by message.
func (s *Stall) pass(server, client net.Conn) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		for s.state == still || s.state == ended {
			s.changed.Wait()
		}
		if s.state == counting {
			if s.left--; s.left == 0 {
				s.state = still
			}
		}
		s.mu.Unlock()
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}
