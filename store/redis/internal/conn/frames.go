package conn

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"
)

// errUnasked ends a connection on which an answer came without a request. At such an answer the library panics in a
// goroutine of its own, and so ends the process ("protocol bug, message handled out of order"). A proxy that mixes
// connections up sends such answers. And if a stray answer was taken for the answer to a request, the request's own answer
// is left without one.
var errUnasked = errors.New("redis sent an answer that nobody asked for: the connection is not to be trusted")

// A ledger has the answers that a server owes on one connection, in order. It parses both directions as far as their framing
// needs, and expects the same answers as the library.
type ledger struct {
	requests, answers frames // each used by one goroutine at a time: the writer, and the reader
	resp3             bool   // pushes are marked as such; of the reader

	mu         sync.Mutex // guards the fields below
	owed       []debt
	paid       int  // how many of the debts, from the front
	subscribes bool // a subscription was asked for
}

// A debt is the answer that one request awaits.
type debt struct {
	kind debtKind
	left int // channels whose subscription is not confirmed
}

type debtKind int

const (
	anything   debtKind = iota
	confirmed           // a push for each channel, or an error
	ignored             // pushes without effect, or an error; the library has sent a PING after it
	pongIsOwed          // the answer to that PING, after an error
)

// sends notes bytes that are about to be sent.
func (l *ledger) sends(b []byte) {
	for len(b) > 0 {
		v, n := l.requests.next(b)
		if b = b[n:]; v != nil {
			l.owe(v)
		}
	}
}

func (l *ledger) owe(request *value) {
	d := debt{}
	switch request.first {
	case "SUBSCRIBE", "SSUBSCRIBE", "PSUBSCRIBE":
		d = debt{confirmed, request.parts - 1}
	case "UNSUBSCRIBE", "SUNSUBSCRIBE", "PUNSUBSCRIBE":
		d.kind = ignored
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribes = l.subscribes || d.kind != anything; l.paid == len(l.owed) {
		l.owed, l.paid = l.owed[:0], 0
	}
	l.owed = append(l.owed, d)
}

// receives notes bytes that have arrived. If one of their answers is to no request, it returns errUnasked, and none of the
// bytes counts.
func (l *ledger) receives(b []byte) error {
	for len(b) > 0 {
		v, n := l.answers.next(b)
		if b = b[n:]; v != nil && !l.pays(v) {
			return errUnasked
		}
	}
	return nil
}

// pays reports whether a value may arrive now.
func (l *ledger) pays(v *value) bool {
	l.resp3 = l.resp3 || v.kind == '>' || v.kind == '%'
	l.mu.Lock()
	defer l.mu.Unlock()
	var head *debt
	if l.paid < len(l.owed) {
		head = &l.owed[l.paid]
	}
	if v.kind == '>' || v.kind == '*' && l.subscribes && !l.resp3 && v.first != "pong" {
		return l.pushed(v.first, head)
	}
	if head == nil || !head.paidBy(v) {
		return false
	}
	l.paid++
	if head.kind == ignored && l.paid < len(l.owed) {
		if v.pong() {
			l.paid++ // it was the PING's answer, and nothing more is owed
		} else {
			l.owed[l.paid].kind = pongIsOwed
		}
	}
	return true
}

// paidBy reports whether a value may answer a request.
func (d *debt) paidBy(v *value) bool {
	switch d.kind {
	case confirmed:
		return v.kind == '-'
	case ignored:
		return v.kind == '-' || v.pong()
	case pongIsOwed:
		return v.pong()
	}
	return true
}

// pushed reports whether a push may arrive now.
func (l *ledger) pushed(first string, head *debt) bool {
	switch first {
	case "subscribe", "ssubscribe", "psubscribe":
		if head == nil || head.kind != confirmed {
			return false
		}
		if head.left--; head.left <= 0 {
			l.paid++
		}
	}
	return true
}

// pong reports whether the library takes a value for the answer to a PING.
func (v *value) pong() bool {
	if v.kind == '-' {
		return strings.HasPrefix(v.first, "LOADING") || strings.HasPrefix(v.first, "BUSY") || strings.Contains(v.first, "'ping'")
	}
	return v.first == "PONG" || v.first == "pong"
}

// frames finds the top-level values in a stream of RESP. See [the
// protocol](https://redis.io/docs/latest/develop/reference/protocol-spec/).
type frames struct {
	line  []byte // the part of a header that has arrived
	skip  int    // how many bytes of a text are still to come, with its end
	parts int    // how many values of the present top-level value are still to come
	begun value  // a value whose first part is not known yet
	opens bool   // begun is such a value
	take  bool   // the text of skip is that first part
	blind bool   // an unknown type has come: from then on nothing is known
}

// A value is a top-level value of the stream: its kind, and its own line or the first text of a list.
type value struct {
	kind  byte
	parts int // of a list
	first string
}

// longest bounds the kept part of a text or a header: more than any command's name.
const longest = 64

// next reads until a value is known, and returns how many bytes it read. The value is nil if the bytes end before.
func (f *frames) next(b []byte) (*value, int) {
	at := 0
	for at < len(b) {
		if f.blind {
			return nil, len(b)
		}
		if f.skip > 0 {
			n := min(f.skip, len(b)-at)
			if f.take {
				f.begun.first += string(b[at : at+min(n, max(0, f.skip-2), longest-len(f.begun.first))])
			}
			at, f.skip = at+n, f.skip-n
			if f.skip == 0 && f.take {
				f.take = false
				return f.known(), at
			}
			continue
		}
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			f.noteHeader(b[at:])
			return nil, len(b)
		}
		line := b[at : at+end+1]
		if at += end + 1; len(f.line) > 0 {
			f.noteHeader(line)
			line = f.line
		}
		v := f.header(line)
		f.line = f.line[:0]
		if v != nil {
			return v, at
		}
	}
	return nil, at
}

// noteHeader keeps the beginning of a header, up to longest.
func (f *frames) noteHeader(b []byte) {
	f.line = append(f.line, b[:min(len(b), max(0, longest-len(f.line)))]...)
}

// known returns begun, whose first part is known now, or nil if there is none.
func (f *frames) known() *value {
	if !f.opens {
		return nil
	}
	f.opens = false
	return &f.begun
}

// header notes a line that begins a value, or a part of one. It returns the value that it completes, or nil.
func (f *frames) header(line []byte) *value {
	top := f.parts == 0
	if top {
		f.begun, f.opens = value{kind: line[0]}, true
	} else {
		f.parts--
	}
	var n int
	switch line[0] {
	case '$', '!', '=', '*', '~', '>', '%', '|':
		var err error
		if n, err = strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n"))); err != nil {
			f.blind = true // a part of unknown length, which no server sends yet
			return nil
		}
	case '+', '-', ':', '_', '#', ',', '(':
		if f.opens {
			f.begun.first = string(bytes.TrimRight(line[1:], "\r\n"))
		}
		return f.known()
	default:
		f.blind = true
		return nil
	}
	switch line[0] {
	case '$', '!', '=':
		if n >= 0 {
			f.skip = n + 2
			if f.take = !top && f.opens; f.take {
				return nil
			}
		}
		return f.known()
	case '%':
		n *= 2
	case '|': // it precedes the value that it describes, and the two count as one
		f.parts += 2*max(n, 0) + 1
		return nil
	}
	f.parts += max(n, 0)
	if top {
		f.begun.parts = f.parts
	}
	if !top || f.parts == 0 {
		return f.known()
	}
	return nil
}
