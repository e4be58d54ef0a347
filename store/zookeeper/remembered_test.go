package zookeeper

// Remembered is for drivertest.
func (d *Driver) Remembered() int {
	d.mu.Lock()
	n, s := len(d.localClaims)+len(d.parted)+len(d.alerts), d.session
	d.mu.Unlock()
	if s != nil {
		n += s.Remembered()
	}
	return n
}
