package store

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// A long listing shows how far it is, from a second on and not with each part of the answer.
func TestLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		ctx := lookedAt(t.Context(), func(text func(int) string) { lines = append(lines, text(len(lines)*100+12)) })
		for range 125 {
			time.Sleep(10 * time.Millisecond) // in virtual time
			driver.Heard(ctx, 1000)
		}
		want := []string{"stile: looke", "stile: looked at 112000 so far", "stile: looked at 123000 so far"}
		if !slices.Equal(lines, want) {
			t.Errorf("drawn: %q; want %q", lines, want)
		}
	})
}
