package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/cmd/stile/internal/page"
)

// An output is stdout, which notes what could not be written: a help text is written by a library that does not look.
type output struct {
	w   io.Writer
	err error // of the first write that failed
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// toStdout reports whether a writer is stdout.
func toStdout(w io.Writer) bool {
	o, ok := w.(*output)
	return ok && o.w == io.Writer(os.Stdout)
}

// closed reports whether a file of stdin, stdout and stderr was closed when stile was started. The Go runtime opens
// /dev/null in its place, for reading and writing, so that no other file gets the number; a shell's >/dev/null is open for
// writing only.
func closed(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return true
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	null, err := os.Stat(os.DevNull)
	info, e := f.Stat()
	return err == nil && e == nil && os.SameFile(null, info)
}

// table writes rows in columns, fit for a terminal.
func table(w io.Writer, head string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = page.Printable(cell); row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// writeJSON writes one value. What a terminal would not show as it is, is escaped.
func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	var safe strings.Builder
	for _, r := range b.String() {
		if r == '\n' || unicode.IsPrint(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, safe.String())
	return err
}

// seconds are written with three digits at most.
type seconds float64

func secondsOf(d time.Duration) seconds { return seconds(math.Round(d.Seconds()*1000) / 1000) }
