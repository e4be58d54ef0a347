package mysql

import (
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// The sizes of a claim's columns. The server might cut a longer text without an error.
const (
	maxID    = 255
	maxOwner = 1024
)

// save collects the statements that write the changes of the steps.
func (t *transaction) save(before map[key][]driver.Entry) error {
	for k, n := range t.rows {
		was, is := before[k], n.queue.Entries
		t.s.contended.changed(n.name, len(was), len(is))
		if n.lone && len(is) == 1 && is[0].Ticket == was[0].Ticket && !is[0].Left {
			t.saveLone(k, &was[0], &is[0])
			continue
		}
		if n.lone {
			was = nil // it moves to the table of claims, or is removed
		}
		w := &writer{t: t, key: k, queue: n.queue}
		if err := sqldb.Save(w, was, is); err != nil {
			return err
		}
		if w.inserted || n.lone || n.queued && len(is) == 0 && n.last > 0 {
			head := n.queue.Last
			if len(is) > 0 {
				head = is[0].Ticket
			}
			t.write("UPDATE `{prefix}name` SET `last` = %d, `head` = %d, `queued` = %d, `ends` = 0 WHERE `hash` = %v",
				n.queue.Last, head, bit(len(is) > 0), k)
		}
	}
	return nil
}

// saveLone writes the new state of a claim that stays alone in the row of its name.
func (t *transaction) saveLone(k key, was, is *driver.Entry) {
	switch {
	case is.Weight != was.Weight || is.Record != was.Record:
		t.write("UPDATE `{prefix}name` SET `ends` = %d, `weight` = %d, `record` = %s WHERE `hash` = %v",
			is.Ends, is.Weight, quote([]byte(is.Record)), k)
	case *is != *was:
		t.write("UPDATE `{prefix}name` SET `ends` = %d WHERE `hash` = %v", is.Ends, k)
	}
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
	if !fits(e.ID, e.Client, e.Owner, e.Record) {
		return fmt.Errorf("the claim is too long: id and client may have %d bytes, the owner %d and the record %d",
			maxID, maxOwner, driver.MaxRecord)
	}
	w.inserted = true
	w.t.write("INSERT INTO `{prefix}claim` (`hash`, `ticket`, `id`, `client`, `owner`, `record`, "+
		"`weight`, `capacity`, `since`, `ends`, `delay`, `told`, `departed`) "+
		"VALUES (%v, %d, %s, %s, %s, %s, %d, %d, %d, %d, %d, %d, %d)",
		w.key, e.Ticket, quote([]byte(e.ID)), quote([]byte(e.Client)), quote([]byte(e.Owner)), quote([]byte(e.Record)),
		e.Weight, w.queue.Capacity, e.Since, e.Ends, e.Delay, bit(e.Notified), bit(e.Left))
	return nil
}

func (w *writer) Update(e *driver.Entry) error {
	w.t.write("UPDATE `{prefix}claim` SET `ends` = %d, `told` = %d, `departed` = %d WHERE `hash` = %v AND `ticket` = %d",
		e.Ends, bit(e.Notified), bit(e.Left), w.key, e.Ticket)
	return nil
}

func (w *writer) Amend(e *driver.Entry) error {
	w.t.write("UPDATE `{prefix}claim` SET `ends` = %d, `told` = %d, `departed` = %d, `weight` = %d, `record` = %s "+
		"WHERE `hash` = %v AND `ticket` = %d",
		e.Ends, bit(e.Notified), bit(e.Left), e.Weight, quote([]byte(e.Record)), w.key, e.Ticket)
	return nil
}

func (w *writer) Delete(ticket int64) error {
	w.t.write("DELETE FROM `{prefix}claim` WHERE `hash` = %v AND `ticket` = %d", w.key, ticket)
	return nil
}

func fits(id, client, owner, record string) bool {
	return len(id) <= maxID && len(client) <= maxID && len(owner) <= maxOwner && len(record) <= driver.MaxRecord
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
