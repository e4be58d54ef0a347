package postgres

// Remembered is for drivertest.
func (d *Driver) Remembered() int {
	d.failover.mu.Lock()
	defer d.failover.mu.Unlock()
	return d.failover.claims.Len()
}
