package main

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/internal/secure"
)

var (
	// What stands between a scheme and the host of a URL may be a password, wherever the URL came from.
	credentials = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s/]*@`) })

	// placeholders stand in the drivers' advice, and show where the password goes.
	placeholders = []string{"://user:password@", "://:password@", "://:token@"}

	secrets []string // parts of the store's URL that must not be shown
)

// keepSecret has every later message leave texts out where secrets stand. The drivers leave passwords out too; this is for
// what they pass on from others.
func keepSecret(texts ...string) { secrets = append(secrets, texts...) }

// oneLine returns a text without secrets, and fit for a terminal.
func oneLine(text string) string {
	text = secure.Hide(text, secrets...)
	text = strings.ReplaceAll(text, ": stile: ", ": ") // an error of the library within one of ours
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
	return page.Printable(strings.Join(lines, "; "))
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`) })

// quoted returns a text as one word of the shell.
func quoted(text string) string {
	if plainWord().MatchString(text) && !strings.HasPrefix(text, "-") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
