package etcd

// Remembered returns the number of claims that the driver remembers, for drivertest.
func (d *Driver) Remembered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.claims.known)
}
