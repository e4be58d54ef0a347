//go:build unix

// Package answer writes a program's output: tables for people, JSON for programs, and the file of a flag. It notes failed
// writes.
package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/stilelock/stile/internal/phrase"
)

// An Output is stdout. It keeps the first error, since the library that writes help texts ignores errors.
type Output struct {
	To  io.Writer
	Err error // of the first failed write
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.To.Write(p)
	if err != nil && o.Err == nil {
		o.Err = err
	}
	return n, err
}

// ToStdout reports whether a writer is stdout.
func ToStdout(w io.Writer) bool {
	o, ok := w.(*Output)
	return ok && o.To == io.Writer(os.Stdout)
}

// Table writes rows in columns, fit for a terminal.
func Table(w io.Writer, head string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = phrase.Printable(cell); row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// JSON writes one value, and escapes characters that a terminal would not show as they are.
func JSON(w io.Writer, v any, indent string) error {
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

// Seconds are seconds with at most three decimals.
type Seconds float64

// SecondsOf returns a duration in seconds.
func SecondsOf(d time.Duration) Seconds { return Seconds(math.Round(d.Seconds()*1000) / 1000) }

// Micros are seconds with six decimals.
type Micros float64

// MicrosOf returns a duration in microseconds.
func MicrosOf(d time.Duration) Micros { return Micros(d.Seconds()) }

// MarshalJSON is [encoding/json.Marshaler].
func (d Micros) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d), 'f', 6, 64), nil
}

// Nanos are seconds with nine decimals.
type Nanos float64

// NanosOf returns a duration in nanoseconds.
func NanosOf(d time.Duration) Nanos { return Nanos(d.Seconds()) }

// MarshalJSON is [encoding/json.Marshaler].
func (d Nanos) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d), 'f', 9, 64), nil
}
