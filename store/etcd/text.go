package etcd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// A text is any bytes. In JSON, people can read it where possible: a compact JSON object is written as it is, other UTF-8
// as a string, and all else as a list of one string in base 64.
type text string

// appendTo appends the text in JSON.
func (t text) appendTo(b []byte) ([]byte, error) {
	written, err := t.MarshalJSON()
	return append(b, written...), err
}

// MarshalJSON implements [json.Marshaler].
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

// UnmarshalJSON implements [json.Unmarshaler].
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
