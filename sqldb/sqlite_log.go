package sqldb

// logMost is how many pages the log gets before it is written back, which syncs it and the database. It is SQLite's own
// default. More would cost less each time, and keep others waiting longer, for the disk to take all of the log.
const logMost = 1000

// writeBack writes a long log back to the database, so that it begins anew, where SQLite does not by itself. Others do not write
// meanwhile: otherwise it would never come to its end while they do, and be tried after each commit. What it does is of no
// matter to the transaction before it: after an error, the log goes on growing for now.
func (d *lite) writeBack(s *session) {
	c, ok := s.conn.(Logged)
	if !ok {
		return
	}
	switch n := c.Pages(); {
	case n < logMost:
		d.room = logMost
	case n >= d.room:
		d.room = n + logMost/4
		_ = s.exec("write back")
	}
}
