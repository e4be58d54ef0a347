package sqldb

import "github.com/stilelock/stile/driver"

// A Writer writes the changes of one queue's claims.
type Writer interface {
	Insert(e *driver.Entry) error
	Update(e *driver.Entry) error // writes Ends, Notified and Left
	Amend(e *driver.Entry) error  // writes Weight and Record too; nothing else of a claim changes
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
			switch was, is := &before[0], &after[0]; {
			case is.Weight != was.Weight || is.Record != was.Record:
				err = w.Amend(is)
			case *is != *was:
				err = w.Update(is)
			}
			before, after = before[1:], after[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}
