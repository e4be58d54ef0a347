package secure

import (
	"strings"
	"unicode"
)

// hidden replaces a secret in a message.
const hidden = "…"

// Hide returns a message of a server or a library without secrets. It removes an unlikely secret everywhere: letters mixed
// with digits or signs, or a long number. It removes another secret only where a secret may stand: in a URL between the
// colon and the at sign, after "password=", and, from four characters on, in quotes. Elsewhere such a text is a word: a
// password "a" or "timeout" must not make a message unreadable.
func Hide(text string, secrets ...string) string {
	for _, secret := range secrets {
		switch {
		case secret == "":
		case unlikely(secret):
			text = strings.ReplaceAll(text, secret, hidden)
		default:
			text = hideValues(text, secret)
		}
	}
	return text
}

// unlikely reports whether a text is unlikely to appear in a sentence by chance.
func unlikely(secret string) bool {
	letters := strings.ContainsFunc(secret, unicode.IsLetter)
	others := strings.ContainsFunc(secret, func(r rune) bool { return !unicode.IsLetter(r) })
	return others && (letters && len(secret) >= 5 || len(secret) >= 8)
}

// hideValues removes a secret that stands as a value.
func hideValues(text, secret string) string {
	var b strings.Builder
	for before := ""; ; {
		head, rest, found := strings.Cut(text, secret)
		b.WriteString(head)
		if !found {
			return b.String()
		}
		if before += head; isValue(before, rest, len(secret)) {
			b.WriteString(hidden)
		} else {
			b.WriteString(secret)
		}
		before, text = before+secret, rest
	}
}

// isValue reports whether the text between two parts of a message is a value there.
func isValue(before, after string, length int) bool {
	const quotes = "\"'`"
	key, assigned := strings.CutSuffix(strings.TrimRight(before, quotes), "=")
	ends := after == "" || strings.IndexByte("&;, \n)"+quotes, after[0]) >= 0
	switch {
	case strings.HasSuffix(before, ":") && strings.HasPrefix(after, "@"):
		return true
	case assigned && ends && forSecret(strings.ToLower(key)):
		return true
	}
	quoted := before != "" && after != "" && strings.Contains(quotes, after[:1]) && strings.HasSuffix(before, after[:1])
	return quoted && length >= 4
}

// forSecret reports whether the value of a key is a secret.
func forSecret(key string) bool {
	return strings.HasSuffix(key, "password") || strings.HasSuffix(key, "passwd") || strings.HasSuffix(key, "pwd")
}
