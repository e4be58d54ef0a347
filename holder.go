package stile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A Holder is who holds or waits, as kept in the store for people to read.
type Holder struct {
	Owner   string `json:"owner,omitempty"`   // LockOptions.Owner
	Program string `json:"program,omitempty"` // the command's name
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Reason  string `json:"reason,omitempty"` // LockOptions.Reason
	Value   string `json:"value,omitempty"`  // what a candidate stands for; of a claim that is not stile's, all that it says
}

// String names the holder in a few words.
func (h Holder) String() string {
	who := h.Owner
	if who == "" {
		who = h.Program
	}
	switch {
	case who == "" && h.Value != "":
		return fmt.Sprintf("another program (%s)", h.Value)
	case who == "":
		return "somebody unknown"
	}
	if h.Host != "" {
		who += fmt.Sprintf(" on %s, pid %d", h.Host, h.PID)
	}
	if h.Reason != "" {
		who += fmt.Sprintf(" (%s)", h.Reason)
	}
	return who
}

var self = sync.OnceValue(func() Holder {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return Holder{Program: filepath.Base(os.Args[0]), Host: host, PID: os.Getpid()}
})

// recordOf returns the holder as the store keeps it. It fails if it is too long to be kept.
func recordOf(o LockOptions, value string) (string, error) {
	h := self()
	h.Owner, h.Reason, h.Value = o.Owner, o.Reason, value
	text, err := json.Marshal(h)
	if err == nil && len(text) > driver.MaxRecord {
		err = fmt.Errorf("%w holder: owner, reason and value take %d bytes; the limit is %d", ErrInvalid, len(text), driver.MaxRecord)
	}
	return string(text), err
}

// holderOf reads a record. What another program wrote there, such as a candidate of its own, is the value if it is text.
func holderOf(record string) Holder {
	var h Holder
	if json.Unmarshal([]byte(record), &h) == nil && (h.Owner != "" || h.Program != "") {
		return h
	}
	if !utf8.ValidString(record) || strings.ContainsFunc(record, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Holder{}
	}
	return Holder{Value: record}
}
