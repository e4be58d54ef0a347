package zookeeper

// EndSession ends the session of the client, as an outage does that is longer than the session.
func (d *Driver) EndSession() { d.session.Close(true) }

// LocalClaims is how many claims the driver goes on with.
func (d *Driver) LocalClaims() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.localClaims) + len(d.parted)
}
