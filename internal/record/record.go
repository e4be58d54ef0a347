// Package record has the description of a holder or a waiter that a store keeps for people.
package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A Holder is a record's content. Package stile documents the fields.
type Holder struct {
	Owner   string `json:"owner,omitempty"`
	Program string `json:"program,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Value   string `json:"value,omitempty"`
	Within  string `json:"within,omitempty"`

	Principal string `json:"-"` // see [With]
}

var self = sync.OnceValue(func() Holder {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return Holder{Program: clean(filepath.Base(os.Args[0])), Host: clean(host), PID: os.Getpid()}
})

// clean returns the storable and printable part of a name that nobody chose as text: a file's name may be any bytes.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, name)
	return strings.ToValidUTF8(name[:min(len(name), mostName)], "")
}

// mostName is the most bytes kept of the name of a program or a host.
const mostName = 255

// behalf is the process that this one writes records for, unless it is 0.
var behalf atomic.Int64

// OnBehalfOf makes all later records name another process of this machine: the process that asked for a claim which outlives
// its maker.
func OnBehalfOf(pid int) { behalf.Store(int64(pid)) }

// Write returns the record of a holder in this process. ttl is the claim's while it holds; 0 means no claim. It fails if a
// text is not UTF-8, since the store would change it, or if the record is too long.
func Write(owner, reason, value string, ttl time.Duration) (string, error) {
	return write(&changed{Holder: self(), TTL: ttl.Milliseconds()}, owner, reason, value)
}

// Of returns the record of another holder.
func Of(h Holder, ttl time.Duration) (string, error) {
	h.Program, h.Host = clean(h.Program), clean(h.Host)
	return write(&changed{Holder: h, TTL: ttl.Milliseconds()}, h.Owner, h.Reason, h.Value)
}

// changed is a record in its written form. No claim has the same record twice.
type changed struct {
	Holder
	Times int   `json:"changed,omitempty"` // counts the changes of the claim's record
	TTL   int64 `json:"ttl,omitempty"`     // of the claim while it holds, in milliseconds
}

// TTL returns the ttl of a record's claim while it holds; 0 if the record does not have it, as from an older client.
func TTL(record string) time.Duration {
	var r struct {
		TTL int64 `json:"ttl"`
	}
	if json.Unmarshal([]byte(record), &r) != nil || r.TTL < 0 || r.TTL > driver.MaxTTL.Milliseconds() {
		return 0 // not a record of stile
	}
	return time.Duration(r.TTL) * time.Millisecond
}

// Change returns a record with a new value, for a holder in this process with an earlier record.
func Change(from, value string) (string, error) {
	var was changed
	if json.Unmarshal([]byte(from), &was) != nil {
		was = changed{}
	}
	return write(&changed{self(), was.Times + 1, was.TTL}, was.Owner, was.Reason, value)
}

func write(r *changed, owner, reason, value string) (string, error) {
	if pid := int(behalf.Load()); pid != 0 {
		r.PID = pid
	}
	for _, is := range [...]struct{ what, text string }{{"owner", owner}, {"reason", reason}, {"value", value}} {
		if !utf8.ValidString(is.text) {
			return "", fmt.Errorf("the %s %.40q is not valid UTF-8", is.what, is.text)
		}
	}
	r.Owner, r.Reason, r.Value = owner, reason, value
	text, err := json.Marshal(r)
	if err == nil && len(text) > Most {
		err = fmt.Errorf("owner, reason and value take %d bytes; the limit is %d", len(text), Most)
	}
	return string(text), err
}

// Read reads a record, with or without a principal. The text of another program is the value.
func Read(stored string) Holder {
	record, principal := Whose(stored)
	var h Holder
	if json.Unmarshal([]byte(record), &h) != nil || h.Owner == "" && h.Program == "" {
		h = Holder{}
		if utf8.ValidString(record) && !strings.ContainsFunc(record, func(r rune) bool { return !unicode.IsPrint(r) }) {
			h.Value = record
		}
	}
	h.Principal = principal
	return h
}

// String describes the holder in a few words.
func (h Holder) String() string {
	who, as := h.Owner, ""
	if who == "" {
		who = h.Program
	}
	if h.Principal != "" {
		as = " as " + h.Principal
	}
	switch {
	case who == "" && h.Value != "":
		return fmt.Sprintf("another program%s (%s)", as, h.Value)
	case who == "":
		return "somebody unknown" + as
	}
	who += as
	if h.Host != "" {
		who += " on " + h.Host
		if h.PID != 0 { // the lock service does not know its clients' PIDs
			who += fmt.Sprintf(", pid %d", h.PID)
		}
	}
	if h.Reason != "" {
		who += fmt.Sprintf(" (%s)", h.Reason)
	}
	return who
}

// A Held is a claim that a waiter already has.
type Held struct {
	Name   string
	Ticket int64
}

// Readable returns a record without the names in its field within that its reader may not know.
func Readable(text string, reads func(name string) bool) string {
	if !strings.Contains(text, `"within":`) {
		return text
	}
	var fields map[string]json.RawMessage
	var within string
	if json.Unmarshal([]byte(text), &fields) != nil || json.Unmarshal(fields["within"], &within) != nil {
		return text // another program's
	}
	var lines []string
	for line := range strings.SplitSeq(within, "\n") {
		if _, name, _ := strings.Cut(line, " "); reads(name) {
			lines = append(lines, line)
		}
	}
	left := strings.Join(lines, "\n")
	if left == within {
		return text
	}
	delete(fields, "within")
	if left != "" {
		fields["within"], _ = json.Marshal(left) // cannot fail for a string
	}
	short, err := json.Marshal(fields)
	if err != nil {
		return ""
	}
	return string(short)
}

// Within returns the record of a claim that waits while its caller has others: as many of them as there is room for,
// innermost first.
func Within(text string, has []Held) string {
	lines := ""
	for _, h := range has {
		line := fmt.Sprintf("%d %s", h.Ticket, h.Name)
		if lines != "" {
			line = "\n" + line
		}
		within, _ := json.Marshal(lines + line) // cannot fail for a string
		if len(text) < 2 || len(text)+len(`,"within":`)+len(within) > Most {
			break
		}
		lines += line
	}
	if lines == "" {
		return text
	}
	within, _ := json.Marshal(lines)
	return text[:len(text)-1] + `,"within":` + string(within) + "}"
}
