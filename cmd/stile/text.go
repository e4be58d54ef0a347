package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	// What stands between a scheme and the host of a URL may be a password, wherever the URL came from.
	credentials = regexp.MustCompile(`://[^\s/]*@`)

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

// say prints one line that begins with the program's name.
func say(w io.Writer, format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "stile: ")
	fmt.Fprintln(w, "stile: "+oneLine(text))
}

// warn says something on stderr that does not end the command.
func warn(format string, args ...any) { say(os.Stderr, format, args...) }

// oneLine returns a text without secrets, and fit for a terminal.
func oneLine(text string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	text = strings.ReplaceAll(text, ": stile: ", ": ") // an error of the library within one of ours
	text = credentials.ReplaceAllString(text, "://…@")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return printable(strings.Join(lines, "; "))
}

// printable escapes what a terminal would not show as it is: control characters, and those that turn the direction of
// the text or have no width.
func printable(text string) string {
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

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// quoted returns a text as one word of the shell.
func quoted(text string) string {
	if plainWord.MatchString(text) && !strings.HasPrefix(text, "-") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
