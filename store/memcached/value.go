package memcached

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver/casqueue"
)

// keepLast is how many seconds a value stays after its last claim, so that tickets rise from one claim to the next although
// clients do not know the server's time exactly.
const keepLast = 60

// untilMark begins a value. After it come the second of the server's clock at which the server drops the value, and then
// package casqueue's text of the queue. With the value's remaining time to live, that second shows the server's time.
const untilMark = `{"until":`

// seal puts the second before a JSON object.
func seal(until int64, text []byte) []byte {
	out := make([]byte, 0, len(untilMark)+20+len(text))
	out = strconv.AppendInt(append(out, untilMark...), until, 10)
	return append(append(out, ','), text[1:]...)
}

// unseal is the reverse of seal, and uses the value's memory. Values of earlier versions have the second elsewhere among
// their fields, and stay unchanged. The second is 0 in a foreign value.
func unseal(data []byte) (until int64, text []byte) {
	rest, ours := bytes.CutPrefix(data, []byte(untilMark))
	digits, _, more := bytes.Cut(rest, []byte(","))
	if until, err := strconv.ParseInt(string(digits), 10, 64); ours && more && err == nil {
		text = data[len(untilMark)+len(digits):]
		text[0] = '{'
		return until, text
	}
	var earlier struct{ Until int64 }
	if err := json.Unmarshal(data, &earlier); err != nil {
		return 0, data
	}
	return earlier.Until, data
}

// nameIn returns the name in a value; "" if it has none.
func nameIn(data []byte) string {
	var v struct{ Name string }
	if err := json.Unmarshal(data, &v); err != nil {
		return ""
	}
	return v.Name
}

// A version is a value's version, on one connection.
type version struct {
	conn, cas uint64
	until     int64 // the second at which the server drops the value
}

func (v version) text() casqueue.Version {
	b := strconv.AppendUint(make([]byte, 0, 40), v.conn, 10)
	b = strconv.AppendUint(append(b, ' '), v.cas, 10)
	return casqueue.Version(strconv.AppendInt(append(b, ' '), v.until, 10))
}

// parseVersion is the reverse of text. Connections are numbered from 1, so the zero version belongs to none.
func parseVersion(text casqueue.Version) (v version) {
	parts := strings.SplitN(string(text), " ", 3)
	if len(parts) < 3 {
		return v
	}
	v.conn, _ = strconv.ParseUint(parts[0], 10, 64)
	v.cas, _ = strconv.ParseUint(parts[1], 10, 64)
	v.until, _ = strconv.ParseInt(parts[2], 10, 64)
	return v
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
