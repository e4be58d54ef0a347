package memcached

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// layout is the version of the layout of values.
const layout = 1

// A mark is a value of layout plain that stile set.
type mark struct {
	Stile  int    `json:"stile"` // layout
	Name   string `json:"name"`
	ID     string `json:"id"`
	Client string `json:"client,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Ticket int64  `json:"ticket"`
	Since  int64  `json:"since"`
	Left   bool   `json:"left,omitempty"`
	Record string `json:"record,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"` // the record, if it is not text
}

func (m *mark) set(record string) {
	if m.Record, m.Bytes = record, nil; !utf8.ValidString(record) {
		m.Record, m.Bytes = "", []byte(record)
	}
}

func (m *mark) encode() []byte {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(m); err != nil {
		panic(err) // numbers and text have a form
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// A sight is a value that was read under a key.
type sight struct {
	conn *conn
	cas  uint64 // 0 if there was no value
	left int64  // seconds to live; negative means for ever
	mark *mark  // not nil; zero for another program's value
}

// ours reports whether the value is a claim's own.
func (s *sight) ours(c *driver.Claim) bool { return s.mark.ID == c.ID && s.mark.Stile == layout }

// standing returns the value as an observer sees it. Another program's value does not say who set it.
func (s *sight) standing() driver.ClaimInfo {
	out := driver.ClaimInfo{Ticket: waitingTicket, Weight: driver.All, Holds: true, Left: s.mark.Left, Record: s.mark.Record}
	if s.mark.Bytes != nil {
		out.Record = string(s.mark.Bytes)
	}
	if s.mark.Ticket != 0 {
		out.Ticket = s.mark.Ticket
		out.Since = time.Duration(max(0, s.conn.clock.micros()-s.mark.Since)) * time.Microsecond
	}
	if s.left >= 0 {
		out.Remaining = max(time.Duration(s.left-roundings)*time.Second, time.Millisecond)
	}
	return out
}

// storeAndRead sends a request to store, if there is one, and reads the value after it.
func (p *Plain) storeAndRead(ctx context.Context, c *conn, store []byte, key string) (*sight, bool, error) {
	want := 1
	if len(store) > 0 {
		want = 2
	}
	r, err := c.do(ctx, appendGet(store, key), want)
	if err != nil {
		return nil, false, p.link.explain(err)
	}
	stored := false
	if want == 2 {
		if stored, err = r[0].stored(); err != nil {
			return nil, false, p.link.explain(err)
		}
	}
	is, err := p.see(c, key, &r[want-1])
	return is, stored, p.link.explainRead(stored, err)
}

// see returns the value under a key by an answer.
func (p *Plain) see(c *conn, key string, got *reply) (*sight, error) {
	is := &sight{conn: c, mark: &mark{}}
	switch got.status {
	case "EN":
		return is, nil
	case "VA":
	default:
		return nil, got.unexpected()
	}
	var err error
	if is.cas, err = got.version(key); err == nil {
		is.left, err = got.number('t')
	}
	if err != nil {
		return nil, err
	}
	var m mark
	if json.Unmarshal(got.data, &m) == nil && m.Stile == layout && p.key(m.Name) == key {
		is.mark = &m
	}
	return is, nil
}

// swap replaces the value that was seen by another, with at least this life, unless it has changed.
func (p *Plain) swap(ctx context.Context, is *sight, key string, life time.Duration, m *mark) (bool, error) {
	r, err := is.conn.do(ctx, appendStore(nil, key, is.cas, expiry(life), m.encode()), 1)
	if err != nil {
		return false, p.link.explain(err)
	}
	stored, err := r[0].stored()
	if full(err) && m.ID == is.mark.ID {
		return p.touch(ctx, is, key, life)
	}
	return stored, p.link.explain(err)
}

// touch extends the life of a claim's own value if memory is full, and a swap, which stores the value again, is refused
// (-M). The command has no condition: if another claim has taken the lock since the read, so that our lease was over, its
// value may live longer than it asked for. The answer shows the owner of the value, and nobody loses a lock.
func (p *Plain) touch(ctx context.Context, is *sight, key string, life time.Duration) (bool, error) {
	r, err := is.conn.do(ctx, appendTouch(nil, key, expiry(life)), 1)
	if err != nil {
		return false, p.link.explain(err)
	}
	switch r[0].status {
	case "HD":
		version, err := r[0].version(key)
		return version == is.cas, p.link.explain(err)
	case "EN":
		return false, nil
	}
	return false, p.link.explain(r[0].unexpected())
}

// remove deletes the value that was seen, unless it has changed.
func (p *Plain) remove(ctx context.Context, is *sight, key string) (bool, error) {
	r, err := is.conn.do(ctx, appendDelete(nil, key, is.cas), 1)
	if err != nil {
		return false, p.link.explain(err)
	}
	switch r[0].status {
	case "HD":
		return true, nil
	case "EX", "NF":
		return false, nil
	}
	return false, p.link.explain(r[0].unexpected())
}
