package zookeeper

// EndSession ends the session of the client, as an outage does that is longer than the session.
func (d *Driver) EndSession() { d.session.Close(true) }
