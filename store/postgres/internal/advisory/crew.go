package advisory

// A crew is the connections of a session, by what each is for now. The package comment draws how they change places.
//
// After each call, a key is locked on main if one is locked at all, and none is on spare.
type crew struct {
	main   *backend // where keys are tried
	second *backend // has keys that it waited for while main had others, or none and no connection
	spare  *backend // the scout's: it waits there
}

func newCrew(backend func() *backend) crew { return crew{backend(), backend(), backend()} }

func (c *crew) all() []*backend { return []*backend{c.main, c.second, c.spare} }

// full reports whether a key that comes to be locked on spare would be on a third connection.
func (c *crew) full(locked map[*backend]int) bool { return locked[c.second] > 0 }

// granted makes the spare connection, on which a key has been locked, one of those that have keys.
func (c *crew) granted(locked map[*backend]int) {
	if locked[c.main] == 0 {
		c.main, c.spare = c.spare, c.main
	} else {
		c.second, c.spare = c.spare, c.second
	}
}

// tidy has main be one that has keys, and a second that has none be spare, if the scout is at home, or be gone.
func (c *crew) tidy(locked map[*backend]int, home bool) {
	if locked[c.second] > 0 && locked[c.main] == 0 {
		c.main, c.second = c.second, c.main
	}
	if locked[c.second] > 0 || c.second.conn == nil {
		return
	}
	if home && c.spare.conn == nil {
		c.second, c.spare = c.spare, c.second
	}
	c.second.hangUp() // a spare one that was idle had no connection
}
