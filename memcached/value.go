package memcached

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// layout is the version of the layout of values.
const layout = 1

// A value is what is stored under a name: its queue, whose times are microseconds of the server's clock.
type value struct {
	Stile    int     `json:"stile"` // layout
	Name     string  `json:"name"`
	Until    int64   `json:"until"` // second of the server's clock at which the server drops the value
	Last     int64   `json:"last"`
	Capacity int64   `json:"capacity,omitempty"`
	Claims   []entry `json:"claims,omitempty"`
}

// An entry is a [driver.Entry].
type entry struct {
	ID     string `json:"id"`
	Client string `json:"client,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Ticket int64  `json:"ticket"`
	Weight int64  `json:"weight"`
	Since  int64  `json:"since"`
	Ends   int64  `json:"ends"`
	Delay  int64  `json:"delay,omitempty"`
	Told   bool   `json:"told,omitempty"`
	Left   bool   `json:"left,omitempty"`
	Record string `json:"record,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"` // the record, if it is not text
}

// encode returns the value for a queue.
func encode(name string, until int64, q *driver.Queue) []byte {
	v := value{Stile: layout, Name: name, Until: until, Last: q.Last, Capacity: q.Capacity}
	for i := range q.Entries {
		e := &q.Entries[i]
		c := entry{
			ID: e.ID, Client: e.Client, Owner: e.Owner, Ticket: e.Ticket, Weight: e.Weight,
			Since: e.Since, Ends: e.Ends, Delay: e.Delay, Told: e.Told, Left: e.Left, Record: e.Record,
		}
		if !utf8.ValidString(e.Record) {
			c.Record, c.Bytes = "", []byte(e.Record)
		}
		v.Claims = append(v.Claims, c)
	}
	return marshal(&v)
}

// marshal returns what has nothing but numbers and text as JSON.
func marshal(v any) []byte {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		panic(err) // numbers and text have a form
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode is the reverse of encode. The error says that the value is not stile's.
func decode(text []byte) (name string, until int64, q driver.Queue, err error) {
	var v value
	if err := json.Unmarshal(text, &v); err != nil || v.Stile == 0 {
		return "", 0, q, errors.New("its value is another program's")
	}
	switch {
	case v.Stile != layout:
		return "", 0, q, fmt.Errorf("its layout is version %d; this stile knows %d", v.Stile, layout)
	case len(v.Claims) > 0 && v.Capacity < 1:
		return "", 0, q, errors.New("its value is damaged")
	}
	q = driver.Queue{Capacity: v.Capacity, Last: v.Last}
	for i := range v.Claims {
		c := &v.Claims[i]
		e := driver.Entry{
			ID: c.ID, Client: c.Client, Owner: c.Owner, Ticket: c.Ticket, Weight: c.Weight,
			Since: c.Since, Ends: c.Ends, Delay: c.Delay, Told: c.Told, Left: c.Left, Record: c.Record,
		}
		if c.Bytes != nil {
			e.Record = string(c.Bytes)
		}
		q.Entries = append(q.Entries, e)
	}
	return v.Name, v.Until, q, nil
}
