//go:build unix

package demo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Patch overwrites the beginning of a file.
func Patch(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// CountText formats all numbers with the same length, so that a new number overwrites the whole old one.
func CountText(n int) string { return fmt.Sprintf("%8d\n", n) }

// CountOf parses the text of CountText.
func CountOf(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// AppendTo adds a text to an existing file.
func AppendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
