package consul

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/keyqueue"
)

// The flags of keys, by which clients recognize their own.
const (
	claimFlags     uint64 = 0x7374696c65       // a claim
	lockFlags      uint64 = 0x2ddccbc058a50c18 // a lock, of Consul's own client
	semaphoreFlags uint64 = 0xe0f69a2baa414de0 // a semaphore, of Consul's own client
	lockKeyName           = ".lock"
)

// A value is the content of a claim's key.
type value struct {
	Name     string `json:"name,omitempty"` // if the key only has its hash
	Weight   int64  `json:"weight"`
	Capacity int64  `json:"capacity"`
	Client   string `json:"client"`
	Owner    string `json:"owner,omitempty"`
	Record   string `json:"record,omitempty"`
	Raw      []byte `json:"raw,omitempty"` // the record, if it is not text
	Entered  int64  `json:"entered"`       // in milliseconds of Unix time, by the client's clock; only shown to people
	Left     bool   `json:"left,omitempty"`
}

// An entry is a claim as it stands in the store.
type entry struct {
	pair
	value
	id string
}

func (e *entry) ticket() int64   { return int64(e.CreateIndex) } //nolint:gosec // an index of Raft is far below 1<<63
func (e *entry) exclusive() bool { return e.Weight == driver.All && e.Capacity == driver.All }

// Facts returns the parts of the entry that the rule reads.
func (e *entry) Facts() keyqueue.Facts {
	return keyqueue.Facts{
		ID: e.id, Client: e.Client, Owner: e.Owner, Record: e.Record,
		Ticket: e.ticket(), Weight: e.Weight, Capacity: e.Capacity, Since: time.UnixMilli(e.Entered), Left: e.Left,
	}
}

// A queue is the claims of a name, and the key that keeps clients of other kinds out.
type queue struct {
	folder  string
	entries keyqueue.Queue[*entry] // in ticket order
	lockKey *pair                  // nil if it does not exist
	dead    []*pair                // claims whose session is over, and that had a lock-delay
	foreign bool                   // the lock's key, or another key in the folder, is of another kind of lock
}

// maxText is the longest key, and roomForID the part of it that is reserved for a claim's id.
const (
	maxText   = 512
	maxPrefix = 256
	roomForID = 64
	hashed    = "%sha256-" // no encoded name begins like this
)

// folderOf returns the beginning of the keys of a name. A name that is too long for a key is replaced by its hash; then each
// claim's value has the name.
func folderOf(prefix, name string) string {
	text := driver.EncodeName(name)
	if len(prefix)+len(text)+1+roomForID > maxText {
		sum := sha256.Sum256([]byte(name))
		text = hashed + hex.EncodeToString(sum[:])
	}
	return prefix + text + "/"
}

// look reads the queue of a name, confirmed by a majority of the servers.
func (d *Driver) look(ctx context.Context, name string) (*queue, error) {
	folder := folderOf(d.prefix, name)
	pairs, bad, err := d.agent.transact(ctx, []op{{Verb: tree, Key: folder}})
	if err == nil && bad != nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	return parse(name, folder, pairs), nil
}

// parse makes a queue of the keys in a folder, and ignores keys that are no claims of stile.
func parse(name, folder string, pairs []pair) *queue {
	q := &queue{folder: folder}
	for i := range pairs {
		p := &pairs[i]
		id, ok := strings.CutPrefix(p.Key, folder)
		switch {
		case !ok || strings.Contains(id, "/"):
		case id == lockKeyName:
			q.lockKey, q.foreign = p, q.foreign || p.Flags != lockFlags
		case p.Flags == semaphoreFlags:
			q.foreign = true
		case p.Flags == claimFlags && p.Session == "":
			q.dead = append(q.dead, p)
		case p.Flags == claimFlags:
			if e := entryOf(p, id, name); e != nil {
				q.entries = append(q.entries, e)
			}
		}
	}
	slices.SortFunc(q.entries, func(a, b *entry) int { return int(a.ticket() - b.ticket()) })
	return q
}

// entryOf returns the claim of a key, or nil. The name "" matches every name.
func entryOf(p *pair, id, name string) *entry {
	e := &entry{pair: *p, id: id}
	if json.Unmarshal(p.Value, &e.value) != nil || e.Weight < 1 || e.Weight > e.Capacity {
		return nil
	}
	if e.Name != "" && e.Name != name && name != "" {
		return nil
	}
	if e.Raw != nil {
		e.Record = string(e.Raw)
	}
	return e
}

// find returns the claim with an id, or nil.
func (q *queue) find(id string) *entry {
	if q == nil {
		return nil
	}
	if i := q.entries.Find(driver.EncodeName(id)); i >= 0 {
		return q.entries[i]
	}
	return nil
}

// kept reports whether a claim has left and is kept in the queue.
func (q *queue) kept(id string) bool {
	e := q.find(id)
	return e != nil && e.Left
}

// of returns the claim of a session, or nil.
func (q *queue) of(session string) *entry {
	for _, e := range q.entries {
		if session != "" && e.Session == session {
			return e
		}
	}
	return nil
}

// at returns the index of the claim by its session, or -1.
func (q *queue) at(s *seat) int {
	return slices.IndexFunc(q.entries, func(e *entry) bool { return e.Key == s.key && e.Session == s.session })
}

// after returns the queue without the earlier claims.
func (q *queue) after(earlier []*entry) *queue {
	return q.except(func(e *entry) bool { return slices.Contains(earlier, e) })
}

// hasLockKey reports whether a session has the lock's key.
func (q *queue) hasLockKey(session string) bool {
	return q.lockKey != nil && q.lockKey.Session == session
}

// leftover reports whether the lock's key has lost its session, so that it may be in its lock-delay.
func (q *queue) leftover() bool {
	return q.lockKey != nil && q.lockKey.Session == "" && q.lockKey.Flags == lockFlags
}

// foreignKey explains what a client of another kind has in place of the lock's key.
func (q *queue) foreignKey() error {
	if q.lockKey != nil && q.lockKey.Flags != semaphoreFlags {
		return fmt.Errorf("%w: the key %s", driver.ErrForeign, q.lockKey.Key)
	}
	return fmt.Errorf("%w: a semaphore of Consul's own (consul lock -n) is at %s", driver.ErrForeign, q.folder)
}

// except returns the queue without some claims, and without the lock's key if one of them has it.
func (q *queue) except(gone func(e *entry) bool) *queue {
	rest := *q
	rest.entries = nil
	for _, e := range q.entries {
		switch {
		case !gone(e):
			rest.entries = append(rest.entries, e)
		case q.hasLockKey(e.Session):
			rest.lockKey = nil
		}
	}
	return &rest
}

// barred reports whether a client of another kind has the lock.
func (q *queue) barred() bool {
	return q.lockKey != nil && q.lockKey.Session != "" && q.of(q.lockKey.Session) == nil
}

// standing returns entry i as an observer sees it.
func (q *queue) standing(i int) driver.ClaimInfo {
	s := q.entries.Standing(i)
	s.Holds = s.Holds && !(q.entries[i].exclusive() && q.barred())
	return s
}

// stranger returns the client of another kind that has the lock, as an observer sees it.
func (q *queue) stranger() driver.ClaimInfo {
	ticket := int64(q.lockKey.CreateIndex) //nolint:gosec // like tickets
	return driver.ClaimInfo{Ticket: ticket, Weight: driver.All, Holds: true}
}

// valueOf returns the value of a claim's key, for a claim that enters at a time.
func valueOf(c *driver.Claim, prefix string, entered time.Time) value {
	v := value{Weight: c.Weight, Capacity: c.Capacity, Client: c.Client, Owner: c.Owner, Entered: entered.UnixMilli()}
	v.set(c.Record)
	if strings.HasPrefix(folderOf(prefix, c.Name), prefix+hashed) {
		v.Name = c.Name
	}
	return v
}

// set sets the record.
func (v *value) set(record string) {
	if v.Record, v.Raw = record, nil; !utf8.ValidString(record) {
		v.Record, v.Raw = "", []byte(record)
	}
}

// text returns the content as JSON.
func (v *value) text() []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // JSON can encode every value
	}
	return text
}
