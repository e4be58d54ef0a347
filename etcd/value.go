package etcd

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A value is what a claim's key holds, as JSON. A key with another value, or none, is of a foreign client.
type value struct {
	Stile    int    `json:"stile"` // the version of this layout
	ID       string `json:"id"`
	Client   string `json:"client,omitempty"`
	Owner    text   `json:"owner,omitzero"`
	Weight   int64  `json:"weight,omitempty"`   // 0 means all
	Capacity int64  `json:"capacity,omitempty"` // 0 means all
	Left     bool   `json:"left,omitempty"`     // released, and kept for a while
	Since    int64  `json:"since,omitempty"`    // when it entered, by its client's clock, in milliseconds since 1970: for show
	Record   text   `json:"record,omitzero"`
}

const layout = 1

func valueOf(c *driver.Claim) *value {
	return &value{
		Stile: layout, ID: c.ID, Client: c.Client, Owner: text(c.Owner), Weight: c.Weight, Capacity: c.Capacity,
		Since: time.Now().UnixMilli(), Record: text(c.Record),
	}
}

// whole returns the value with the numbers that it stands for.
func (v *value) whole() value {
	w := *v
	w.Weight, w.Capacity = cmp.Or(v.Weight, driver.All), cmp.Or(v.Capacity, driver.All)
	return w
}

// short returns the value as it is written.
func (v *value) short() value {
	w := *v
	if v.Weight == driver.All {
		w.Weight = 0
	}
	if v.Capacity == driver.All {
		w.Capacity = 0
	}
	return w
}

func (v *value) encode() (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v.short()); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// decode reports false if the bytes are not a claim's.
func decode(b []byte) (value, bool) {
	var v value
	if json.Unmarshal(b, &v) != nil || v.Stile != layout || v.ID == "" {
		return value{}, false
	}
	v = v.whole()
	return v, 0 < v.Weight && v.Weight <= v.Capacity && v.Capacity <= driver.All
}

// A text is any bytes, written so that people can read it where that can be: a compact JSON object as it is, UTF-8 as a
// string, and the rest as a list of one string in base 64.
type text string

// MarshalJSON is for package json.
func (t text) MarshalJSON() ([]byte, error) {
	if len(t) > 0 && t[0] == '{' && utf8.ValidString(string(t)) {
		var b bytes.Buffer
		if json.Compact(&b, []byte(t)) == nil && b.String() == string(t) {
			return []byte(t), nil
		}
	}
	if !utf8.ValidString(string(t)) {
		return json.Marshal([]string{base64.StdEncoding.EncodeToString([]byte(t))})
	}
	return json.Marshal(string(t))
}

// UnmarshalJSON is for package json.
func (t *text) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '{':
		*t = text(b)
		return nil
	case '[':
		var list []string
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		if len(list) != 1 {
			return errors.New("a text is one string")
		}
		raw, err := base64.StdEncoding.DecodeString(list[0])
		*t = text(raw)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}
