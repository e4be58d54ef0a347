package memcached

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/casqueue"
)

// An exchanger keeps the value of each name under a key. It is a [casqueue.Exchanger].
type exchanger struct {
	link   *link
	prefix string
}

// Look is one round trip. If the value is unchanged, the answer is one short line.
func (s *exchanger) Look(ctx context.Context, name string, seen casqueue.Version) (casqueue.Value, error) {
	c, err := s.link.get(ctx)
	if err != nil {
		return casqueue.Value{}, err
	}
	key := s.key(name)
	if was := parseVersion(seen); was.conn == c.number {
		r, err := c.do(ctx, appendPeek(nil, key), 1)
		if err != nil {
			return casqueue.Value{}, s.link.explain(err)
		}
		if v, same := unchanged(c, &r[0], key, was); same {
			return v, nil
		}
	}
	r, err := c.do(ctx, appendGet(nil, key), 1)
	if err != nil {
		return casqueue.Value{}, s.link.explain(err)
	}
	v, err := s.value(c, key, &r[0])
	return v, s.link.explain(err)
}

// unchanged returns the value that was seen, if an answer says that it is still there.
func unchanged(c *conn, r *reply, key string, was version) (v casqueue.Value, same bool) {
	if r.status != "HD" {
		return v, false
	}
	cas, err1 := r.version(key)
	left, err2 := r.number('t')
	if err1 != nil || err2 != nil || cas != was.cas || left < 0 {
		return v, false
	}
	now := was.until - left
	c.clock.see(now)
	return casqueue.Value{Version: was.text(), Now: seconds(now)}, true
}

// Exchange is one round trip: the command to store is followed by one to read. A version of another connection than the
// present one is worthless, since another process of the server has versions of its own. Then nothing is stored.
func (s *exchanger) Exchange(ctx context.Context, d *casqueue.Draft) (casqueue.Value, bool, error) {
	c, err := s.link.get(ctx)
	if err != nil {
		return casqueue.Value{}, false, err
	}
	was := parseVersion(d.Was)
	if d.Was != "" && was.conn != c.number {
		v, err := s.Look(ctx, d.Name, "")
		return v, false, driver.NotYet(err)
	}
	key := s.key(d.Name)
	until := max(c.clock.least(), int64(d.Ends/time.Second)) + keepLast
	text := seal(until, d.Text)
	request := appendGet(appendStore(make([]byte, 0, len(text)+3*len(key)+80), key, was.cas, until, text), key)
	r, err := c.do(ctx, request, 2)
	if err != nil {
		return casqueue.Value{}, false, s.link.explain(err)
	}
	stored, err := r[0].stored()
	if full(err) && d.Ends == 0 && was.cas != 0 {
		return s.remove(ctx, c, key, was.cas)
	}
	if err != nil {
		return casqueue.Value{}, false, s.link.explain(err)
	}
	v, err := s.value(c, key, &r[1])
	switch {
	case stored && r[1].status == "EN" && d.Ends != 0:
		return s.vanished(ctx, c, until)
	case stored && errors.Is(err, driver.ErrForeign): // another program's change came right after
		return casqueue.Value{Now: seconds(c.clock.least())}, true, nil
	}
	return v, stored, s.link.explainRead(stored, err)
}

// vanished decides an exchange that stored claims and found nothing right after. The server drops a value at once that ends
// in its past, as a client stores it whose clock is far behind. Then the exchange was made, and by the server's present time
// all those claims are over. If the value should have ended later, somebody has deleted it, and the present value decides.
func (s *exchanger) vanished(ctx context.Context, c *conn, until int64) (casqueue.Value, bool, error) {
	now, err := s.serverTime(ctx, c)
	if err != nil {
		return casqueue.Value{}, false, driver.Afterwards(err)
	}
	return casqueue.Value{Now: seconds(now)}, until <= now, nil
}

// serverTime asks the server for its time.
func (s *exchanger) serverTime(ctx context.Context, c *conn) (now int64, err error) {
	r, err := c.do(ctx, []byte("stats\r\n"), 1)
	if err == nil {
		now, err = r[0].time()
	}
	if err != nil {
		return 0, s.link.explain(err)
	}
	c.clock.see(now)
	return now, nil
}

// fresh asks the server for its time if the last answer is too old. It may fail: a value stored by an old time is noticed.
func (s *exchanger) fresh(ctx context.Context) {
	if c := s.link.latest(); c.clock.old() {
		_, _ = s.serverTime(ctx, c)
	}
}

// remove deletes the value of an empty queue, if memory is full and an empty one cannot be stored. The last ticket is then
// forgotten sooner.
func (s *exchanger) remove(ctx context.Context, c *conn, key string, cas uint64) (casqueue.Value, bool, error) {
	r, err := c.do(ctx, appendGet(appendDelete(nil, key, cas), key), 2)
	if err != nil {
		return casqueue.Value{}, false, s.link.explain(err)
	}
	if status := r[0].status; status != "HD" && status != "EX" && status != "NF" {
		return casqueue.Value{}, false, s.link.explain(r[0].unexpected())
	}
	v, err := s.value(c, key, &r[1])
	deleted := r[0].status == "HD"
	return v, deleted, s.link.explainRead(deleted, err)
}

// value returns the value under a key by an answer. The answer for an absent value does not have the time.
func (s *exchanger) value(c *conn, key string, r *reply) (casqueue.Value, error) {
	switch r.status {
	case "EN":
		return casqueue.Value{Now: seconds(c.clock.least())}, nil
	case "VA":
	default:
		return casqueue.Value{}, r.unexpected()
	}
	cas, err := r.version(key)
	if err != nil {
		return casqueue.Value{}, err
	}
	left, err := r.number('t')
	if err != nil {
		return casqueue.Value{}, err
	}
	if left < 0 {
		return casqueue.Value{}, fmt.Errorf("%w: key %q: another program has made its value one that never expires",
			driver.ErrForeign, key)
	}
	until, text := unseal(r.data)
	now := c.clock.least() // for another program's value
	if until != 0 {
		now = until - left
		c.clock.see(now)
	}
	is := version{conn: c.number, cas: cas, until: until}
	return casqueue.Value{Text: text, Version: is.text(), Now: seconds(now), Key: key}, nil
}

// Clock returns the estimate of the server's clock.
func (s *exchanger) Clock() time.Duration { return seconds(s.link.latest().clock.least()) }

// Names makes the server list all of its keys, on a connection of its own. The error is [driver.ErrUnsupported] if the
// server cannot. A long name is in its value.
func (s *exchanger) Names(ctx context.Context, prefix string) (names []string, err error) {
	keys, err := s.link.keys(ctx, func(key string) bool { return strings.HasPrefix(key, s.prefix) })
	if err != nil {
		return nil, err
	}
	var long []string
	for _, key := range keys {
		rest := strings.TrimPrefix(key, s.prefix)
		if strings.HasPrefix(rest, hashed) {
			long = append(long, key)
		} else if name, err := driver.DecodeName(rest); err == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	err = s.link.gets(ctx, long, func(i int, _ *conn, r *reply) {
		if name := nameIn(r.data); r.status == "VA" && strings.HasPrefix(name, prefix) && s.key(name) == long[i] {
			names = append(names, name)
		}
	})
	return names, err
}

// GetMany is [casqueue.Many].
func (s *exchanger) GetMany(ctx context.Context, names []string) ([]casqueue.Value, []error) {
	values, errs, keys := make([]casqueue.Value, len(names)), make([]error, len(names)), make([]string, len(names))
	for i, name := range names {
		keys[i] = s.key(name)
	}
	err := s.link.gets(ctx, keys, func(i int, c *conn, r *reply) {
		values[i], errs[i] = s.value(c, keys[i], r)
		errs[i] = s.link.explain(errs[i])
	})
	if err != nil {
		errs[0] = err // a listing has all names or none
	}
	return values, errs
}

// Traits is [driver.Driver].
func (s *exchanger) Traits() driver.Traits {
	f := s.link.latest().facts
	t := promise(f)
	t.Granularity = time.Second // of the clock; [casqueue.Driver] compensates for it
	if !f.evicts {
		t.Note("When memory is full the server refuses to store, renewals among the rest, and a lease that " +
			"cannot be renewed is lost: give it more memory than it needs (-m).")
	}
	if f.largest > 0 {
		t.Note("All claims of a name are one value, of %d bytes at most: a claim that "+
			"does not fit is refused (option -I of memcached).", f.largest)
	}
	return t
}

// Close is [driver.Driver].
func (s *exchanger) Close() error {
	s.link.close()
	return nil
}

// key returns the key of a name. A long name is replaced by its SHA-256; the value has the whole name.
func (s *exchanger) key(name string) string {
	key := s.prefix + driver.EncodeName(name)
	if len(key) <= maxKey {
		return key
	}
	return s.prefix + digest(name)
}
