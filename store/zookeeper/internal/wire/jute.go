package wire

import (
	"encoding/binary"
	"errors"
)

// The protocol's encoding: integers are big-endian; texts and lists are preceded by their length, and a length of -1 means
// absent.

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func putInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func putLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func putText(b []byte, s string) []byte { return append(putInt(b, int32(len(s))), s...) }

var errShort = errors.New("zookeeper's answer is shorter than it should be")

// A reader decodes an answer. After the first missing part all further parts are zero, and err is set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errShort
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) bool() bool {
	b := r.take(1)
	return len(b) == 1 && b[0] != 0
}

func (r *reader) int() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) long() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) text() string {
	n := r.int()
	if n <= 0 {
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) texts() []string {
	n := int(r.int())
	if r.err != nil || n <= 0 {
		return nil
	}
	if n > len(r.b)/4 { // each element has at least a length
		r.err = errShort
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.text()
	}
	if r.err != nil {
		return nil
	}
	return list
}
