package flags

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Duration is the value of a flag that needs a unit.
type Duration time.Duration

// Set reads the flag's text.
func (d *Duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case err != nil && overflows(text):
		return errors.New("the longest duration is 2562047h")
	case err != nil:
		return errors.New("a duration is a number with its unit, such as 500ms, 10s or 1h30m")
	case v < 0:
		return errors.New("it must not be negative")
	}
	*d = Duration(v)
	return nil
}

// overflows reports whether a text is a duration except that its number is too large.
func overflows(text string) bool {
	_, err := time.ParseDuration("1" + strings.TrimLeft(text, "0123456789"))
	return err == nil && text[0] >= '0' && text[0] <= '9'
}

func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return fmt.Sprint(time.Duration(*d))
}

// Type returns the name of the type in the help.
func (d *Duration) Type() string { return "duration" }

// MarshalText writes a duration in the form that a flag takes.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the text of MarshalText.
func (d *Duration) UnmarshalText(text []byte) error { return d.Set(string(text)) }
