package record

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/stilelock/stile/driver"
)

// The lock service keeps a claim's record together with its principal: in the record itself, so that people who read the store
// see who it was. If the record is an object of JSON, the principal is its last field: readers of JSON take the last of several
// equal names, so a record cannot claim to be another principal's. Any other record is in base64 in the field raw.

// Most is the size in bytes of the largest record that this package writes. The rest of [driver.MaxRecord] is for the service's
// addition, so that a record which fits a store also fits the store behind a service.
const Most = driver.MaxRecord - 96

// MaxPrincipal is the most characters in the name of a principal.
const MaxPrincipal = 64

// IsPrincipal reports whether a text may be the name of a principal.
func IsPrincipal(name string) bool {
	return name != "" && len(name) <= MaxPrincipal && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '-' && r != '_'
	})
}

const (
	beforePrincipal = `"principal":"`
	afterPrincipal  = `"}`
	beforeRaw       = `{"raw":"`
)

// With returns a record as the lock service stores it for a principal; "" stands for no principal. Different records or
// principals have different results.
func With(text, principal string) string {
	by := beforePrincipal + principal + afterPrincipal
	switch {
	case principal == "":
		return text
	case text == "":
		return "{" + by
	case extensible(text):
		return text[:len(text)-1] + "," + by
	}
	return beforeRaw + base64.StdEncoding.EncodeToString([]byte(text)) + `",` + by
}

// extensible reports whether a record is an object of JSON with a field, and no record in base64.
func extensible(text string) bool {
	return strings.HasPrefix(text, `{"`) && strings.HasSuffix(text, "}") && !strings.HasPrefix(text, beforeRaw) && json.Valid([]byte(text))
}

// Split is the reverse of With. It returns what is no result of With as it is, without a principal.
func Split(stored string) (text, principal string) {
	head, whole := strings.CutSuffix(stored, afterPrincipal)
	at := strings.LastIndex(head, beforePrincipal)
	if !whole || at < 1 || !IsPrincipal(head[at+len(beforePrincipal):]) {
		return stored, ""
	}
	text, principal = head[:at], head[at+len(beforePrincipal):]
	if text == "{" {
		return "", principal
	}
	text = strings.TrimSuffix(text, ",")
	if raw, is := strings.CutPrefix(text, beforeRaw); is {
		bytes, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(raw, `"`))
		if err != nil {
			return stored, ""
		}
		text = string(bytes)
	} else {
		text += "}"
	}
	if With(text, principal) != stored {
		return stored, ""
	}
	return text, principal
}

// Whose is Split, and also finds the principal of a claim of Consul's clients. The front that serves them has a principal of its own
// in its records, which stay as they are.
func Whose(stored string) (text, principal string) {
	text, principal = Split(stored)
	if principal != "" || !strings.Contains(stored, `"consul_`) {
		return text, principal
	}
	type part struct{ Principal string }
	var is struct {
		Session part `json:"consul_session"`
		Key     part `json:"consul_key"`
	}
	if json.Unmarshal([]byte(stored), &is) != nil {
		return text, ""
	}
	if by := cmp.Or(is.Session.Principal, is.Key.Principal); IsPrincipal(by) {
		principal = by
	}
	return text, principal
}
