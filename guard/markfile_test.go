package guard

import (
	"bytes"
	"strings"
	"testing"
)

func FuzzParseRecord(f *testing.F) {
	f.Add(record(1))
	f.Add(record(1<<63 - 1))
	f.Add([]byte(strings.Repeat("x", recordSize)))
	f.Fuzz(func(t *testing.T, line []byte) {
		if token := parseRecord(line); token < 0 || token > 0 && !bytes.Equal(record(token), line) {
			t.Errorf("%q is read as %d", line, token)
		}
	})
}
