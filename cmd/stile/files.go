package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// patch writes over the beginning of a file.
func patch(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// countText writes all numbers with the same length: one that replaces another leaves nothing of it.
func countText(n int) string { return fmt.Sprintf("%8d\n", n) }

// countOf reads what countText wrote.
func countOf(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
