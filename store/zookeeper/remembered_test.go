package zookeeper

// Remembered is for drivertest.
func (d *Driver) Remembered() int {
	d.line.mu.Lock()
	n := d.remembers() + len(d.line.janitor.alerts)
	d.line.mu.Unlock()
	if s := d.zk.current(); s != nil {
		n += s.Remembered()
	}
	return n
}
