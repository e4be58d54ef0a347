package consul

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
)

// suffix ends the keys of consul lock: consul lock NAME takes the key NAME/.lock, which is the lock NAME here. Any other key
// is the lock of the same name.
const suffix = "/.lock"

// nameOf returns the name of a key's lock, and whether the key ends in the suffix.
func nameOf(key string) (name string, dot bool) {
	if name, dot = strings.CutSuffix(key, suffix); dot && name != "" {
		return name, true
	}
	return key, false
}

// The flags by which Consul's clients in Go know their keys.
const (
	lockFlag      uint64 = 0x2ddccbc058a50c18
	semaphoreFlag uint64 = 0xe0f69a2baa414de0
)

// maxLimit bounds the holders of a semaphore, all of whom are in one value.
const maxLimit = 1000

// A pair is a key with its value, as Consul shows it.
type pair struct {
	LockIndex   uint64 // the fencing token
	Key         string
	Flags       uint64
	Value       []byte
	Session     string `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// A semaphore is the value of a semaphore's key.
type semaphore struct {
	Limit   int64
	Holders map[string]bool
}

// A view is the queue of a name as a caller sees it.
type view struct {
	*driver.Listing
	principal string
	reads     bool
}

func see(l *driver.Listing, who Caller) *view { return &view{l, who.Principal(), who.Reads(l.Name)} }

// permits reports whether the name is a semaphore.
func (v *view) permits() bool { return 0 < v.Capacity && v.Capacity <= maxLimit }

// session returns the session of a claim and its hold. Without the right to read, a caller gets a strange id, and no hold.
func (v *view) session(c *driver.ClaimInfo, share int) (string, *hold) {
	if h := readHold(c); h != nil && (v.reads || h.Principal == v.principal) {
		return h.Session, h
	}
	return stranger(v.Name, c.Ticket, share), nil
}

// holders returns the sessions that take up a semaphore, in the order of the queue. A claim that waits for several permits
// takes them up too, and so does one that left and is kept: no new claim holds before them. A claim of several permits is
// several holders.
func (v *view) holders() (all []string) {
	for i := range v.Claims {
		for share := range int(min(v.Claims[i].Weight, v.Capacity)) {
			if int64(len(all)) == v.Capacity {
				return all
			}
			id, _ := v.session(&v.Claims[i], share)
			all = append(all, id)
		}
	}
	return all
}

// slots returns the holders of a semaphore as a set; none if the name is a lock.
func (v *view) slots() map[string]bool {
	all := map[string]bool{}
	if v.permits() {
		for _, id := range v.holders() {
			all[id] = true
		}
	}
	return all
}

// semaphore returns the key of a semaphore; nil without claims.
func (v *view) semaphore() *pair {
	s := semaphore{v.Capacity, v.slots()}
	if len(s.Holders) == 0 {
		return nil
	}
	value, _ := json.Marshal(s) // cannot fail
	return v.finish(&pair{Key: v.Name + suffix, Flags: semaphoreFlag, Value: value})
}

// lock returns a key of a lock; nil if nobody holds it. While only a lock-delay keeps others out, nobody does.
func (v *view) lock(key string) *pair {
	i := slices.IndexFunc(v.Claims, func(c driver.ClaimInfo) bool { return live(&c) })
	if i < 0 {
		return nil
	}
	c := &v.Claims[i]
	p := &pair{Key: key, Flags: lockFlag, LockIndex: uint64(c.Ticket) * engine.Turns, CreateIndex: uint64(c.Ticket)}
	var h *hold
	if p.Session, h = v.session(c, 0); h != nil {
		p.Value = h.Value
	}
	if all := readHold(c); all != nil { // flags say only which library holds, so that others do not mistake the key
		p.Flags = all.Flags
	}
	if v.permits() {
		p.Flags = semaphoreFlag
	}
	return v.finish(p)
}

// get returns a key of the name; nil if it is not there.
func (v *view) get(key string) *pair {
	if _, dot := nameOf(key); dot && v.permits() {
		return v.semaphore()
	}
	return v.lock(key)
}

// finish sets the index of a pair.
func (*view) finish(p *pair) *pair {
	text, _ := json.Marshal(p) // cannot fail
	p.ModifyIndex = indexOf(text)
	return p
}

// all adds the keys of the name to others, unless they are there. A lock has one of its two keys: the one that its client
// took. A semaphore has a key for each holder, from which clients learn who of them lives.
func (v *view) all(keys map[string]*pair) {
	add := func(p *pair) {
		if p != nil {
			keys[p.Key] = p
		}
	}
	if !v.permits() {
		key := v.Name + suffix
		if i := slices.IndexFunc(v.Claims, func(c driver.ClaimInfo) bool { return live(&c) }); i >= 0 {
			if h := readHold(&v.Claims[i]); h != nil && !h.Dot {
				key = v.Name
			}
		}
		add(v.lock(key))
		return
	}
	add(v.semaphore())
	for _, id := range v.holders() {
		if key := v.Name + "/" + id; keys[key] == nil {
			add(v.finish(&pair{Key: key, Flags: semaphoreFlag, Session: id}))
		}
	}
}

// recursive returns the keys with a prefix, of some queues, in the order of their bytes.
func recursive(prefix string, queues []driver.Listing, who Caller) (all []*pair) {
	keys := map[string]*pair{}
	for i := range queues {
		if l := &queues[i]; !IsSession(l.Name) && who.Knows(l.Name) {
			see(l, who).all(keys)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if strings.HasPrefix(key, prefix) {
			all = append(all, keys[key])
		}
	}
	return all
}
