package consul

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A key is a secret of the replicas. Claims carry its name, so that it can be changed while they last.
type key struct {
	secret []byte
	name   string
}

func newKey(secret []byte) *key {
	sum := sha256.Sum256(append([]byte("name of a key of stile\x00"), secret...))
	return &key{secret, hex.EncodeToString(sum[:4])}
}

// id derives the id of a claim. No part has a NUL.
func (k *key) id(parts ...string) string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte(strings.Join(parts, "\x00"))) // never fails
	return base32.StdEncoding.EncodeToString(mac.Sum(nil))[:26]
}

// keyOf returns the key by its name.
func (f *Front) keyOf(name string) (*key, error) {
	for _, k := range f.keys {
		if k.name == name {
			return k, nil
		}
	}
	return nil, refuse(http.StatusInternalServerError, "this lock service lacks the key %.20q of the session", name)
}

// uuid returns 16 bytes as a UUID, the form of Consul's ids.
func uuid(b []byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // cannot fail
	return uuid(b)
}

// newNonce draws the nonce of a hold, since an id is never used for a second claim. That of a slot also says of how many. So the nonce
// in the record of a session is enough to renew the claim.
func newNonce(capacity int64) string {
	b := make([]byte, 9)
	_, _ = rand.Read(b) // cannot fail
	nonce := base64.RawURLEncoding.EncodeToString(b)
	if capacity != driver.All {
		nonce += ":" + strconv.FormatInt(capacity, 10)
	}
	return nonce
}

// capacityOf returns the capacity of a hold's name.
func capacityOf(nonce string) int64 {
	if _, slots, ok := strings.Cut(nonce, ":"); ok {
		if n, err := strconv.ParseInt(slots, 10, 64); err == nil {
			return n
		}
	}
	return driver.All
}

// isID reports whether a text is a UUID in the form of this package.
func isID(text string) bool {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	return err == nil && len(b) == 16 && fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]) == text
}

// stranger returns an id for a claim whose session the caller does not see, or that has none. Consul's clients compare such
// ids, and ask for nothing with them.
func stranger(name string, ticket int64, share int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "stranger\x00%s\x00%d\x00%d", name, ticket, share))
	return uuid(sum[:16])
}

// absent is the index of an answer without keys or sessions.
const absent = 1

// indexOf returns the index of an answer: a hash of what it shows. Equal answers of all replicas have equal indexes, and
// different answers have different ones. Like Consul's after a restored backup, an index may be smaller than an earlier one;
// clients allow for this. It is below 1<<53, as every reader of JSON needs it.
func indexOf(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return max(absent+1, h.Sum64()>>11)
}
