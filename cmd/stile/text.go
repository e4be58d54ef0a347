package main

import (
	"regexp"
	"strings"
	"sync"

	"github.com/stilelock/stile/cmd/stile/internal/page"
)

var (
	// What stands between a scheme and the host of a URL may be a password, wherever the URL came from.
	credentials = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s/]*@`) })

	secrets []string // parts of the store's URL that must not be shown
)

// keepSecret has every later message leave a text out, unless it is so short that it stands in many words. The drivers
// leave passwords out too; this is for what they pass on from others.
func keepSecret(texts ...string) {
	for _, t := range texts {
		if len(t) >= 4 {
			secrets = append(secrets, t)
		}
	}
}

// oneLine returns a text without secrets, and fit for a terminal.
func oneLine(text string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	text = strings.ReplaceAll(text, ": stile: ", ": ") // an error of the library within one of ours
	text = credentials().ReplaceAllString(text, "://…@")
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
