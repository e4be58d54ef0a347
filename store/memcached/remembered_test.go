package memcached

// Remembered is for drivertest.
func (d *Driver) Remembered() int {
	d.alarm.mu.Lock()
	defer d.alarm.mu.Unlock()
	return d.alarm.ids.Len()
}

// Remembered is for drivertest.
func (p *Plain) Remembered() int {
	p.link.alarm.mu.Lock()
	defer p.link.alarm.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.link.alarm.ids.Len(), len(p.held), len(p.endless))
}
