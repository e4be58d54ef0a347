package advisory

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Key is [Key] as text.
func (s *server) Key(name string) string { return strconv.FormatInt(s.key(name), 10) }

// Key returns the number of a name for PostgreSQL's own locks, in sessions and in transactions.
func Key(name string) int64 { return keyed("stile\x00", name) }

// OlderKey returns the number that transactions of older versions lock, which did not exclude sessions. A transaction locks
// it too, so that it excludes older versions while programs are upgraded one by one. A session does not: no session ever
// excluded an older transaction, and each upgraded transaction excludes all sessions, old and new.
func OlderKey(name string) int64 { return keyed("stile ", name) }

func keyed(before, name string) int64 {
	sum := sha256.Sum256([]byte(before + name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
