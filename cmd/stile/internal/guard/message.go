package guard

import (
	"errors"
	"io"
)

// A message is one order or one piece of news on a pipe: the length in eight bytes, and then fields in a fixed order. Both
// ends are the same program, so there are no versions. Package encoding/gob could do the same, but its set-up takes as long
// as the rest of the guard. With packages encoding/binary, strconv and strings the guard would begin late: see package
// early.
type message struct {
	rest []byte
	bad  bool // a field had another form than expected
}

// longest is larger than the arguments and the environment that any system accepts for a program.
const longest = 64 << 20

var errTooLong = errors.New("the message is too long")

// receive reads one message.
func receive(r io.Reader) (*message, error) {
	m := &message{rest: make([]byte, 8)}
	if _, err := io.ReadFull(r, m.rest); err != nil {
		return nil, err
	}
	n := m.takeNumber()
	if n < 0 || n > longest {
		return nil, errTooLong
	}
	m.rest = make([]byte, n)
	_, err := io.ReadFull(r, m.rest)
	return m, err
}

// framed returns the message with its length.
func (m *message) framed() []byte {
	var size message
	size.number(int64(len(m.rest)))
	return append(size.rest, m.rest...)
}

// whole reports whether the message had exactly the fields that were read.
func (m *message) whole() bool { return !m.bad && len(m.rest) == 0 }

// number adds a number, in eight bytes.
func (m *message) number(n int64) {
	for shift := 56; shift >= 0; shift -= 8 {
		m.rest = append(m.rest, byte(n>>shift))
	}
}

func (m *message) flag(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	m.number(n)
}

func (m *message) text(s string) {
	m.number(int64(len(s)))
	m.rest = append(m.rest, s...)
}

func (m *message) texts(list []string) {
	m.number(int64(len(list)))
	for _, s := range list {
		m.text(s)
	}
}

func (m *message) takeNumber() (n int64) {
	if len(m.rest) < 8 {
		m.rest, m.bad = nil, true
		return 0
	}
	for _, b := range m.rest[:8] {
		n = n<<8 | int64(b)
	}
	m.rest = m.rest[8:]
	return n
}

func (m *message) takeFlag() bool { return m.takeNumber() != 0 }

// takeLength takes the number of elements, each of which has at least one byte.
func (m *message) takeLength() int {
	n := m.takeNumber()
	if n < 0 || n > int64(len(m.rest)) {
		m.rest, m.bad = nil, true
		return 0
	}
	return int(n)
}

func (m *message) takeText() string {
	n := m.takeLength()
	s := string(m.rest[:n])
	m.rest = m.rest[n:]
	return s
}

func (m *message) takeTexts() []string {
	list := make([]string, m.takeLength())
	for i := range list {
		list[i] = m.takeText()
	}
	return list
}
