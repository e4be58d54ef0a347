package exit

import (
	"errors"
	"strings"
	"testing"
)

func TestExitCodeSaysNothing(t *testing.T) {
	var b strings.Builder
	if got := Code(&b, With(3, nil)); got != 3 || b.String() != "" {
		t.Errorf("%d, %q", got, &b)
	}
	if got := Code(&b, errors.Join(&Interrupted{2}, nil)); got != 130 || b.String() != "" {
		t.Errorf("%d, %q", got, &b)
	}
}
