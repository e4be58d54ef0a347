package zookeeper

// Remembered is for drivertest.
func (d *Driver) Remembered() int {
	_, alerts := d.line.remembered()
	n := d.LocalClaims() + alerts
	if s := d.zk.current(); s != nil {
		n += s.Remembered()
	}
	return n
}
