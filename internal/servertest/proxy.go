//go:build unix

package servertest

import (
	"net"
	"sync"
	"time"
)

// A Proxy stands between clients and a server, and passes everything on until a test makes trouble.
//
// To lose a reply: Freeze(false, true), wait until the server has applied the request, then Cut.
type Proxy struct {
	Addr   string // what clients connect to
	listen net.Listener

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond
	target   string
	requests bool // held back
	replies  bool
	cut      bool // connections are ended as soon as they come
	closed   bool
	held     int                   // reads that wait to be passed on
	asked    int                   // what clients have sent, each as it came
	carried  int                   // bytes, both ways
	open     map[net.Conn]bool     // whether it is a client's
	holdUp   bool                  // new connections are stranded, once
	after    int                   // the requests that still pass
	late     int                   // requests that are held back on a stranded connection
	stranded map[net.Conn]bool     // clients' connections whose requests are held back
	server   map[net.Conn]net.Conn // by a client's connection: that to the server
}

// dialWithin is how long a proxy tries to connect to its server.
const dialWithin = 5 * time.Second

// NewProxy starts a proxy in front of an address. It ends with the test.
func NewProxy(t TB, target string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1:0", target)
}

// NewProxyAt is NewProxy at an address of its own.
func NewProxyAt(t TB, address, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listen: l, open: map[net.Conn]bool{}, stranded: map[net.Conn]bool{},
		server: map[net.Conn]net.Conn{}}
	p.changed = sync.NewCond(&p.mu)
	var work sync.WaitGroup
	work.Go(func() { p.accept(&work) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		l.Close()
		p.Cut()
		work.Wait()
	})
	return p
}

// Freeze holds back what flows in each direction, on the connections that there are and on new ones, which stay open.
// What was held back flows on when it is called with false.
func (p *Proxy) Freeze(requests, replies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies = requests, replies
	p.changed.Broadcast()
}

// Holds reports whether it holds something back now: requests or replies that have come and were not passed on.
func (p *Proxy) Holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held > 0
}

// Asked returns the number of requests so far. Requests that come at once count as one.
func (p *Proxy) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Carried returns how many bytes came, from clients and from the server.
func (p *Proxy) Carried() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carried
}

// Hold holds requests back on the connections that there are, and on new ones until Pass, once so many more have
// passed. A client that gives such a connection up cannot take back a request that it sent: that arrives with Arrive.
// Data that arrive at once count as one request, also of a client that does not wait for answers.
func (p *Proxy) Hold(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdUp, p.after = true, after
	if after == 0 {
		p.strandLocked()
	}
}

// strandLocked stops the flow on the present connections of clients.
func (p *Proxy) strandLocked() {
	for c, client := range p.open {
		if client {
			p.stranded[c] = true
		}
	}
}

// Held returns the number of requests that Hold holds back now.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late
}

// Pass passes on what comes on connections made from now on.
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdUp = false
}

// Arrive passes on what Hold held back.
func (p *Proxy) Arrive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.stranded)
	p.changed.Broadcast()
}

// Cut ends all connections, and loses the data held back on them. From now on it ends each new one at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeAllLocked()
}

// Mend passes everything on again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.requests, p.replies = false, false, false
	p.changed.Broadcast()
}

// Stray sends clients an answer that no request asked for, on the connections that there are. It comes before the answers to
// requests that they send from now on.
func (p *Proxy) Stray(answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.server {
		if _, err := client.Write([]byte(answer)); err != nil {
			p.closeLocked(client, server)
		}
	}
}

// Drop ends the connections that there are, with what Freeze held back on them lost; new ones are passed on. Those on which
// Hold holds requests back stay.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies = false, false
	for client, server := range p.server {
		if !p.stranded[client] {
			p.closeLocked(client, server)
		}
	}
	p.changed.Broadcast()
}

// closeLocked ends a connection.
func (p *Proxy) closeLocked(ends ...net.Conn) {
	for _, c := range ends {
		c.Close()
		delete(p.open, c)
		delete(p.stranded, c)
		delete(p.server, c)
	}
}

// closeAllLocked closes all connections.
func (p *Proxy) closeAllLocked() {
	for client, server := range p.server {
		p.closeLocked(client, server)
	}
	p.changed.Broadcast()
}

func (p *Proxy) accept(work *sync.WaitGroup) {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		target := p.Target()
		server, err := net.DialTimeout("tcp4", target, dialWithin)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		if p.cut || p.closed || p.target != target {
			p.mu.Unlock()
			client.Close()
			server.Close()
			continue
		}
		p.open[client], p.open[server], p.server[client] = true, false, server
		if p.holdUp && p.after == 0 {
			p.stranded[client] = true
		}
		p.mu.Unlock()
		work.Go(func() { p.pass(server, client, &p.requests) })
		work.Go(func() { p.pass(client, server, &p.replies) })
	}
}

// pass copies in one direction until an end closes, and then closes both.
func (p *Proxy) pass(to, from net.Conn, frozen *bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		if n > 0 {
			p.cameLocked(from)
			p.carried += n
		}
		late := n > 0 && p.stranded[from]
		if late {
			p.late++
		}
		for (*frozen || p.stranded[from]) && p.hasLocked(from) {
			p.changed.Wait()
		}
		if n > 0 {
			p.held--
		}
		if late {
			p.late--
		}
		open := p.hasLocked(from) && p.hasLocked(to)
		p.mu.Unlock()
		if !open {
			break
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(from, to)
	p.changed.Broadcast()
}

// cameLocked counts something that came on a connection.
func (p *Proxy) cameLocked(on net.Conn) {
	p.held++
	if p.open[on] {
		p.asked++
	}
	switch {
	case !p.holdUp || !p.open[on]: // an answer, or nothing is to be held back
	case p.after > 0:
		p.after--
	default:
		p.strandLocked()
	}
}

// hasLocked reports whether a connection is open.
func (p *Proxy) hasLocked(c net.Conn) bool {
	_, open := p.open[c]
	return open
}
