package sqldb

import "github.com/stilelock/stile/driver"

// A Writer writes what has become of one queue's claims.
type Writer interface {
	Insert(e *driver.Entry) error
	Update(e *driver.Entry) error // of Ends, Notified and Left; nothing else of a claim changes
	Delete(ticket int64) error
}

// Save writes the difference between two states of a queue, both in ticket order.
func Save(w Writer, before, after []driver.Entry) error {
	for len(before) > 0 || len(after) > 0 {
		var err error
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].Ticket < after[0].Ticket:
			err = w.Delete(before[0].Ticket)
			before = before[1:]
		case len(before) == 0 || after[0].Ticket < before[0].Ticket:
			err = w.Insert(&after[0])
			after = after[1:]
		default:
			if after[0] != before[0] {
				err = w.Update(&after[0])
			}
			before, after = before[1:], after[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}
