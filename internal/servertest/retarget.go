//go:build unix

package servertest

// Target returns the address of the server that new connections are passed on to.
func (p *Proxy) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Retarget passes new connections on to another server, as a balancer, a virtual address or a name in the DNS does after a
// failover. Open connections stay, as they do behind each of these; Drop ends them.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}
