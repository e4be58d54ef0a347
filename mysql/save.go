package mysql

import (
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/sqldb"
)

// What the columns of a claim have room for. The server might cut what is longer and say nothing.
const (
	maxID    = 255
	maxOwner = 1024
)

// save collects the statements that write what the steps have changed.
func (t *transaction) save(before map[key][]driver.Entry) error {
	for k, n := range t.rows {
		w := &writer{t: t, key: k, queue: n.queue}
		if err := sqldb.Save(w, before[k], n.queue.Entries); err != nil {
			return err
		}
		if n.queue.Last != n.last && w.inserted {
			head := n.queue.Entries[0].Ticket
			t.write("UPDATE `{prefix}name` SET `last` = %d, `head` = %d WHERE `hash` = %v", n.queue.Last, head, k)
		}
	}
	return nil
}

func (t *transaction) write(format string, args ...any) {
	t.writes = append(t.writes, fmt.Sprintf(t.s.place.fill(format), args...))
}

// A writer is the [sqldb.Writer] of one queue.
type writer struct {
	t        *transaction
	key      key
	queue    *driver.Queue
	inserted bool
}

func (w *writer) Insert(e *driver.Entry) error {
	if len(e.ID) > maxID || len(e.Client) > maxID || len(e.Owner) > maxOwner || len(e.Record) > driver.MaxRecord {
		return fmt.Errorf("the claim is too long: id and client may have %d bytes, the owner %d and the record %d", maxID, maxOwner, driver.MaxRecord)
	}
	w.inserted = true
	w.t.write("INSERT INTO `{prefix}claim` (`hash`, `ticket`, `id`, `client`, `owner`, `record`, `weight`, `capacity`, `since`, `ends`, `delay`, `told`, `departed`) "+
		"VALUES (%v, %d, %s, %s, %s, %s, %d, %d, %d, %d, %d, %d, %d)",
		w.key, e.Ticket, quote([]byte(e.ID)), quote([]byte(e.Client)), quote([]byte(e.Owner)), quote([]byte(e.Record)),
		e.Weight, w.queue.Capacity, e.Since, e.Ends, e.Delay, bit(e.Told), bit(e.Left))
	return nil
}

func (w *writer) Update(e *driver.Entry) error {
	w.t.write("UPDATE `{prefix}claim` SET `ends` = %d, `told` = %d, `departed` = %d WHERE `hash` = %v AND `ticket` = %d",
		e.Ends, bit(e.Told), bit(e.Left), w.key, e.Ticket)
	return nil
}

func (w *writer) Delete(ticket int64) error {
	w.t.write("DELETE FROM `{prefix}claim` WHERE `hash` = %v AND `ticket` = %d", w.key, ticket)
	return nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
