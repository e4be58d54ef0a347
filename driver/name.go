package driver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the largest length of a name in bytes. Every store accepts it.
const MaxName = 255

// CheckName returns why a text cannot be the name of a lock: it is empty, longer than [MaxName] bytes, not UTF-8, or has a
// control character. Every other text is a name on every store.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > MaxName {
		return fmt.Errorf("the name is %d bytes long; the limit is %d", len(name), MaxName)
	}
	for i, r := range name {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(name[i:]); size == 1 {
				return fmt.Errorf("the name is not valid UTF-8 (byte 0x%02x at position %d)", name[i], i)
			}
		}
		if unicode.IsControl(r) {
			return fmt.Errorf("the name has control character %U at position %d", r, i)
		}
	}
	return nil
}

// EncodeName turns a name into letters, digits, '-', '_', '.' and '%', at most three times as long. Distinct names stay
// distinct, the result is never "." or "..", and a name of the first five kinds stays as it is. All stores use this
// encoding.
func EncodeName(name string) string {
	dots, others := name == "." || name == "..", 0
	for i := range len(name) {
		if dots || !plain(name[i]) {
			others++
		}
	}
	if others == 0 {
		return name
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(name) + 2*others)
	for i := range len(name) {
		if c := name[i]; !dots && plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// DecodeName is the reverse of [EncodeName]. The error says that no name has this encoding.
func DecodeName(text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+3 > len(text) {
			return "", fmt.Errorf("%q is not an encoded name", text)
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%q is not an encoded name", text)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	if name := b.String(); EncodeName(name) == text {
		return name, nil
	}
	return "", fmt.Errorf("%q is not an encoded name", text)
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
