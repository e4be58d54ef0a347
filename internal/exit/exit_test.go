//go:build unix

package exit

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/internal/ending"
)

func TestOfSaysNothing(t *testing.T) {
	if code, text := Of(With(3, nil)); code != 3 || text != "" {
		t.Errorf("%d, %q", code, text)
	}
	if code, text := Of(errors.Join(&ending.Interrupted{Signal: 2}, nil)); code != 130 || text != "" {
		t.Errorf("%d, %q", code, text)
	}
}
