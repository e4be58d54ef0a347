package zookeeper

// Remembered counts what the driver remembers, for drivertest.
func (d *Driver) Remembered() int {
	_, alerts := d.line.Remembered()
	n := d.LocalClaims() + alerts
	if s := d.zk.Current(); s != nil {
		n += s.Remembered()
	}
	return n
}
