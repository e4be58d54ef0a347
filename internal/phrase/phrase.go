// Package phrase formats text for people: one line without secrets that a terminal shows as it is, words of the shell,
// numbers of things, and durations with the digits that people read.
package phrase

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/stilelock/stile/internal/secure"
)

var (
	// The text between a scheme and a host may be a password, in a URL from anywhere.
	credentials = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s/]*@`) })

	// placeholders are parts of the drivers' advice that show where a password goes.
	placeholders = []string{"://user:password@", "://:password@", "://:token@"}

	secrets []string // parts of the store's URL that must not be shown
)

// KeepSecret removes texts from all later messages, wherever secrets may stand. The drivers leave passwords out too;
// KeepSecret is for texts that they pass on from others.
func KeepSecret(texts ...string) { secrets = append(secrets, texts...) }

// OneLine returns a text on one line, without secrets, fit for a terminal.
func OneLine(text string) string {
	text = secure.Hide(text, secrets...)
	text = strings.ReplaceAll(text, ": stile: ", ": ") // an error of the library within another
	text = credentials().ReplaceAllStringFunc(text, func(found string) string {
		if slices.Contains(placeholders, found) {
			return found
		}
		return "://…@"
	})
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return Printable(strings.Join(lines, "; "))
}

// Printable escapes characters that a terminal would not show as they are: control characters, and characters that change
// the direction of the text or have no width.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`) })

// Quoted returns a text as one word of the shell.
func Quoted(text string) string {
	if plainWord().MatchString(text) && !strings.HasPrefix(text, "-") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Shortened quotes a word of the command line, and cuts off the end of a very long one.
func Shortened(word string) string {
	const most = 64
	if len(word) <= most {
		return strconv.Quote(word)
	}
	return strconv.Quote(strings.ToValidUTF8(word[:most], "")) + "…"
}

// Short formats a duration with the digits that a person reads.
func Short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Stamp formats a time for scripts.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Rounded rounds a duration to the digits that a person reads.
func Rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// Tidy rounds a short duration to its significant digits.
func Tidy(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}

// Plural returns a phrase such as "1 thing" or "3 things".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
