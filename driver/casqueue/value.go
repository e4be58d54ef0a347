package casqueue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// layout is the version of the layout of values.
const layout = 1

// A value is the queue of a name. Its times are microseconds of the store's clock.
type value struct {
	Stile    int     `json:"stile"` // layout
	Name     string  `json:"name"`
	Last     int64   `json:"last"`
	Capacity int64   `json:"capacity,omitempty"`
	Claims   []entry `json:"claims,omitempty"`
}

// An entry is a [driver.Entry].
type entry struct {
	ID       string `json:"id"`
	Client   string `json:"client,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Ticket   int64  `json:"ticket"`
	Weight   int64  `json:"weight"`
	Since    int64  `json:"since"`
	Ends     int64  `json:"ends"`
	Delay    int64  `json:"delay,omitempty"`
	Asks     int64  `json:"asks,omitempty"`
	Notified bool   `json:"told,omitempty"`
	Left     bool   `json:"left,omitempty"`
	Record   string `json:"record,omitempty"`
	Bytes    []byte `json:"bytes,omitempty"` // the record, if it is not text
}

// encode returns the value for a queue. An empty queue forgets its capacity.
func encode(name string, q *driver.Queue) []byte {
	if len(q.Entries) == 0 {
		q.Capacity = 0
	}
	v := value{Stile: layout, Name: name, Last: q.Last, Capacity: q.Capacity}
	for i := range q.Entries {
		e := &q.Entries[i]
		c := entry{
			ID: e.ID, Client: e.Client, Owner: e.Owner, Ticket: e.Ticket, Weight: e.Weight,
			Since: e.Since, Ends: e.Ends, Delay: e.Delay, Asks: e.Asks, Notified: e.Notified, Left: e.Left, Record: e.Record,
		}
		if !utf8.ValidString(e.Record) {
			c.Record, c.Bytes = "", []byte(e.Record)
		}
		v.Claims = append(v.Claims, c)
	}
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(&v); err != nil {
		panic(err) // numbers and text can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode is the reverse of encode. The error is [driver.ErrForeign].
func decode(name string, from *Value) (q driver.Queue, err error) {
	foreign := func(format string, args ...any) error {
		where := fmt.Sprintf("name %q", name)
		if from.Key != "" {
			where = fmt.Sprintf("key %q", from.Key)
		}
		return fmt.Errorf("%w: %s: %s", driver.ErrForeign, where, fmt.Sprintf(format, args...))
	}
	var v value
	if err := json.Unmarshal(from.Text, &v); err != nil || v.Stile == 0 {
		return q, foreign("its value is another program's")
	}
	switch {
	case v.Stile != layout:
		return q, foreign("its layout is version %d; this stile knows %d", v.Stile, layout)
	case v.Name != name:
		return q, foreign("its value is another name's")
	case len(v.Claims) > 0 && v.Capacity < 1:
		return q, foreign("its value is damaged")
	}
	q = driver.Queue{Capacity: v.Capacity, Last: v.Last}
	for i := range v.Claims {
		c := &v.Claims[i]
		e := driver.Entry{
			ID: c.ID, Client: c.Client, Owner: c.Owner, Ticket: c.Ticket, Weight: c.Weight,
			Since: c.Since, Ends: c.Ends, Delay: c.Delay, Asks: c.Asks, Notified: c.Notified, Left: c.Left, Record: c.Record,
		}
		if c.Bytes != nil {
			e.Record = string(c.Bytes)
		}
		q.Entries = append(q.Entries, e)
	}
	return q, nil
}
