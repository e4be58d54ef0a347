package main

import (
	"errors"
	"strings"
	"testing"
)

func TestExitCodeSaysNothing(t *testing.T) {
	var b strings.Builder
	if got := exitCode(&b, withStatus(3, nil)); got != 3 || b.String() != "" {
		t.Errorf("%d, %q", got, &b)
	}
	if got := exitCode(&b, errors.Join(&interrupted{2}, nil)); got != 130 || b.String() != "" {
		t.Errorf("%d, %q", got, &b)
	}
}
