package consul

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
)

// The records of claims are those of stile, so that its commands show who holds. They have one more field, with a session or
// a hold.

// A session is the record of the claim of a session.
type session struct {
	Session   string        `json:"id"`
	By        string        `json:"by"` // the name of the key that derives the ids of its claims
	Principal string        `json:"principal,omitempty"`
	LockDelay time.Duration `json:"lock_delay,omitempty"`
	Behavior  string        `json:"behavior"`
	TTL       string        `json:"ttl"` // as the client gave it
	Times     int           `json:"times,omitempty"`

	// Keys has the nonces of holds by the names of their locks, at most maxKeys. A hold is noted here before its claim enters, so
	// the claim may be missing.
	Keys map[string]string `json:"keys,omitempty"`

	holder record.Holder // its Owner is the name of the session
	ticket int64
	record string // as it is in the store
}

// A hold is the record of a claim of a session on the name of a lock.
type hold struct {
	Session   string `json:"session"`
	By        string `json:"by"`
	Nonce     string `json:"nonce"` // see newNonce
	Principal string `json:"principal,omitempty"`
	Dot       bool   `json:"dot,omitempty"` // the client's key ends in suffix
	Flags     uint64 `json:"flags,omitempty"`
	Value     []byte `json:"value,omitempty"`
	Times     int    `json:"times,omitempty"`
}

// extra is what a record has beside its holder.
type extra struct {
	Session *session `json:"consul_session"`
	Hold    *hold    `json:"consul_key"`
}

// extend returns the record of a holder with one more field. The size counts as it is stored.
func extend(h record.Holder, lease time.Duration, field string, value any) (string, error) {
	text, err := record.Of(h, lease)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	more, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	text = fmt.Sprintf("%s,%q:%s}", strings.TrimSuffix(text, "}"), field, more)
	if len(text) > driver.MaxRecord {
		return "", refuse(http.StatusRequestEntityTooLarge, "the store keeps %d bytes of a session with its keys, and of a key with its "+
			"value; this would take %d", driver.MaxRecord, len(text))
	}
	return text, nil
}

func (s *session) ttl() time.Duration {
	d, _ := time.ParseDuration(s.TTL) // was checked before it was stored
	return d
}

func (s *session) encode(lease time.Duration) (string, error) {
	return extend(s.holder, lease, "consul_session", s)
}

// copied returns a copy that shares no keys.
func (s *session) copied() *session {
	c := *s
	if c.Keys = maps.Clone(s.Keys); c.Keys == nil {
		c.Keys = map[string]string{}
	}
	return &c
}

// read returns what the front has added to the record of a claim; nothing if another program wrote it. A client of the lock
// service can write such a record too. If it has a principal, the service has added that at the end.
func read(c *driver.ClaimInfo) (e extra) {
	if _, by := record.Split(c.Record); by != "" || json.Unmarshal([]byte(c.Record), &e) != nil {
		return extra{}
	}
	return e
}

// readSession returns the session of a claim; nil if it is none.
func readSession(c *driver.ClaimInfo) *session {
	s := read(c).Session
	if s == nil {
		return nil
	}
	s.holder, s.ticket, s.record = record.Read(c.Record), c.Ticket, c.Record
	return s
}

func (h *hold) encode(of record.Holder, lease time.Duration) (string, error) {
	return extend(of, lease, "consul_key", h)
}

// readHold returns the hold of a claim; nil if it is none.
func readHold(c *driver.ClaimInfo) *hold { return read(c).Hold }

// cut returns the beginning of a text. consul lock writes its whole command into the name of its session, which is for people.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}
