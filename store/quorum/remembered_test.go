package quorum

// Remembered is for drivertest.
func (d *Driver) Remembered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.claims.held)
}
