package conn

import (
	"errors"
	"strings"
	"testing"
)

// A ledger finds the first answer without a request in a conversation, whatever pieces it arrives in. A line that begins
// with < is an answer; unasked says that the last one has no request.
func TestLedger(t *testing.T) {
	t.Parallel()
	const get, ok = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "+OK\r\n"
	const hello3 = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
	const unsubscribe, ping = "*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\nc\r\n", "*1\r\n$4\r\nPING\r\n"
	subscribe := func(verb string) string { return "*2\r\n$" + "9" + "\r\n" + verb + "\r\n$1\r\nc\r\n" }
	for name, c := range map[string]struct {
		talk    []string
		unasked bool // the last answer has no request
	}{
		"an answer to each":     {[]string{get, get, "<+OK\r\n", "<$1\r\nx\r\n", get, "<$-1\r\n"}, false},
		"one too many":          {[]string{get, "<+OK\r\n", "<+OK\r\n"}, true},
		"before any request":    {[]string{"<-ERR no\r\n"}, true},
		"a list is one answer":  {[]string{get, "<*3\r\n:1\r\n*2\r\n+a\r\n$2\r\n\r\n\r\n_\r\n", "<:1\r\n"}, true},
		"empty lists":           {[]string{get, get, get, "<*0\r\n", "<*-1\r\n", "<%0\r\n", "<~0\r\n"}, true},
		"a text like an answer": {[]string{get, "<$10\r\n+OK\r\n+OK\r\n\r\n", get, "<#t\r\n"}, false},
		"an attribute goes with its value": {
			[]string{get, "<|1\r\n+ttl\r\n:3600\r\n*2\r\n:1\r\n:2\r\n", get, "<=7\r\ntxt:abc\r\n", "<(12\r\n"}, true},
		"pushes are not asked for": {
			[]string{get, "<" + hello3, "<>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n", get, "<,1.5\r\n", "<+OK\r\n"}, true},
		"a subscription owes nothing": {
			[]string{get, "<" + hello3, subscribe("SUBSCRIBE"), "<>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "<:1\r\n"}, true},
		"a confirmation that nobody waits for": {
			[]string{get, "<" + hello3, "<>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"}, true},
		"a confirmation before an answer that is due first": {[]string{get, "<" + hello3, get, subscribe("SUBSCRIBE"), "<>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"}, true},
		"an answer before a confirmation that is due first": {[]string{subscribe("SUBSCRIBE"), get, "<+OK\r\n"}, true},
		"two channels": {[]string{get, "<" + hello3, "*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n$1\r\nd\r\n", get,
			"<>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "<>3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:1\r\n", "<:1\r\n", "<:1\r\n"}, true},
		"the end of a subscription": {[]string{get, "<" + hello3, unsubscribe, ping, get,
			"<>3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", "<+PONG\r\n", "<:1\r\n", "<:1\r\n"}, true},
		"the end of a subscription without its PING": {[]string{unsubscribe, ping, get, "<:1\r\n"}, true},
		"a server that ends subscriptions":           {[]string{"<>3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n"}, false},
		"no right to unsubscribe":                    {[]string{unsubscribe, ping, "<-NOPERM no\r\n", "<+PONG\r\n", get, "<:1\r\n", "<:1\r\n"}, true},
		"no right to unsubscribe, and no PONG":       {[]string{unsubscribe, ping, get, "<-NOPERM no\r\n", "<:1\r\n"}, true},
		"no right to PING":                           {[]string{unsubscribe, ping, "<-NOPERM no right to 'ping'\r\n", get, "<:1\r\n", "<:1\r\n"}, true},
		"a subscription is refused":                  {[]string{subscribe("SUBSCRIBE"), "<-NOPERM no\r\n"}, false},
		"refused twice":                              {[]string{subscribe("SUBSCRIBE"), "<-NOPERM no\r\n", "<-NOPERM no\r\n"}, true},
		"messages that are not marked": {[]string{
			subscribe("SUBSCRIBE"), "<*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "<*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n",
			"*1\r\n$4\r\nPING\r\n", "<*2\r\n$4\r\npong\r\n$0\r\n\r\n", "<*2\r\n$4\r\npong\r\n$0\r\n\r\n"}, true},
		"a list that looks like a message": {[]string{"<*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"}, true},
		"a long text first": {
			[]string{get, "<*1\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n", "*1\r\n$200\r\n" + strings.Repeat("X", 200) + "\r\n", "<" + ok}, false},
		"a kind that is unknown":   {[]string{get, "<+OK\r\n", "<?\r\n", "<+OK\r\n"}, false},
		"a length that is unknown": {[]string{get, "<*?\r\n:1\r\n.\r\n", "<+OK\r\n"}, false},
		"an empty line":            {[]string{"<\r\n", "<+OK\r\n"}, false},
	} {
		for size := 1; size <= 300; size += 1 + size/8 {
			var l ledger
			for i, said := range c.talk {
				text, answer := strings.CutPrefix(said, "<")
				var err error
				for len(text) > 0 && err == nil {
					piece := text[:min(size, len(text))]
					text = text[len(piece):]
					if answer {
						err = l.receives([]byte(piece))
					} else {
						l.sends([]byte(piece))
					}
				}
				if want := c.unasked && i == len(c.talk)-1; errors.Is(err, errUnasked) != want {
					t.Errorf("%s, in pieces of %d: line %d, %q = %v; want unasked: %v", name, size, i, said, err, want)
				}
			}
		}
	}
}

// The frames of any bytes do not depend on the pieces in which they arrive.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\na\r\n+OK\r\n|1\r\n:1\r\n:2\r\n%1\r\n:1\r\n:2\r\n"), 3)
	f.Add([]byte(">2\r\n$10\r\ninvalidate\r\n*-1\r\n$-5\r\n*99999999999\r\n"), 1)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		whole, pieces := values(b, len(b)), values(b, max(1, size))
		if whole != pieces {
			t.Errorf("at once: %s\nin pieces of %d: %s", whole, size, pieces)
		}
	})
}

// values lists the values of a stream that is read in pieces.
func values(b []byte, size int) string {
	var f frames
	var all strings.Builder
	for len(b) > 0 {
		piece := b[:min(size, len(b))]
		b = b[len(piece):]
		for len(piece) > 0 {
			v, n := f.next(piece)
			piece = piece[n:]
			if v != nil {
				all.WriteString(string(v.kind) + v.first + " ")
			}
		}
	}
	return all.String()
}
