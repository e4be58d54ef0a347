// Package record is how a store keeps who holds or waits, for people to read.
package record

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

// A Holder is a record's content. Package stile documents the fields.
type Holder struct {
	Owner   string `json:"owner,omitempty"`
	Program string `json:"program,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Value   string `json:"value,omitempty"`
}

var self = sync.OnceValue(func() Holder {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return Holder{Program: filepath.Base(os.Args[0]), Host: host, PID: os.Getpid()}
})

// Write returns the record of a holder in this process. It fails if it is too long to be kept.
func Write(owner, reason, value string) (string, error) {
	h := self()
	h.Owner, h.Reason, h.Value = owner, reason, value
	text, err := json.Marshal(h)
	if err == nil && len(text) > driver.MaxRecord {
		err = fmt.Errorf("owner, reason and value take %d bytes; the limit is %d", len(text), driver.MaxRecord)
	}
	return string(text), err
}

// Read reads a record. What another program wrote there, such as a candidate of its own, is the value if it is text.
func Read(record string) Holder {
	var h Holder
	if json.Unmarshal([]byte(record), &h) == nil && (h.Owner != "" || h.Program != "") {
		return h
	}
	if !utf8.ValidString(record) || strings.ContainsFunc(record, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Holder{}
	}
	return Holder{Value: record}
}
