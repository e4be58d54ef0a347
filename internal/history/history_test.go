package history

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func TestOverlaps(t *testing.T) {
	const n = "x"
	h := func(weight int64, begin, end time.Duration) *Hold {
		return &Hold{Name: n, Weight: weight, Begin: begin, End: end}
	}
	for _, tt := range []struct {
		name     string
		capacity int64
		holds    []*Hold
		want     int
	}{
		{"one after the other", driver.All, []*Hold{h(driver.All, 1, 2), h(driver.All, 3, 4)}, 0},
		{"out of order", driver.All, []*Hold{h(driver.All, 3, 4), h(driver.All, 1, 2)}, 0},
		{"two writers", driver.All, []*Hold{h(driver.All, 1, 3), h(driver.All, 2, 4)}, 1},
		{"at one moment", driver.All, []*Hold{h(driver.All, 1, 2), h(driver.All, 2, 3)}, 1},
		{"one inside another", driver.All, []*Hold{h(driver.All, 1, 9), h(driver.All, 2, 3), h(driver.All, 4, 5)}, 2},
		{"readers", driver.All, []*Hold{h(1, 1, 9), h(1, 2, 3), h(1, 4, 5)}, 0},
		{"a writer among readers", driver.All, []*Hold{h(1, 1, 9), h(1, 2, 3), h(driver.All, 4, 5)}, 1},
		{"permits", 2, []*Hold{h(1, 1, 9), h(1, 2, 3), h(1, 4, 5)}, 0},
		{"one permit too many", 2, []*Hold{h(1, 1, 9), h(1, 2, 5), h(1, 4, 5)}, 1},
		{"another name", driver.All, []*Hold{h(driver.All, 1, 3), {Name: "y", Weight: driver.All, Begin: 2, End: 4}}, 0},
	} {
		if got := Overlaps(tt.holds, map[string]int64{n: tt.capacity}); len(got) != tt.want {
			t.Errorf("%s: %d overlaps, want %d: %v", tt.name, len(got), tt.want, got)
		}
	}
}

func TestFalls(t *testing.T) {
	h := func(weight, token int64, begin, end time.Duration) *Hold {
		return &Hold{Name: "x", Weight: weight, Token: token, Begin: begin, End: end}
	}
	for _, tt := range []struct {
		name  string
		holds []*Hold
		want  int
	}{
		{"rising", []*Hold{h(driver.All, 1, 1, 2), h(driver.All, 2, 3, 4)}, 0},
		{"falling", []*Hold{h(driver.All, 2, 1, 2), h(driver.All, 1, 3, 4)}, 1},
		{"the same twice", []*Hold{h(driver.All, 2, 1, 2), h(driver.All, 2, 3, 4)}, 1},
		{"readers among themselves", []*Hold{h(1, 2, 1, 2), h(1, 1, 3, 4)}, 0},
		{"a writer after a reader", []*Hold{h(1, 2, 1, 2), h(driver.All, 1, 3, 4)}, 1},
		{"a reader after a writer", []*Hold{h(driver.All, 2, 1, 2), h(1, 1, 3, 4)}, 1},
	} {
		if got := Falls(tt.holds, map[string]int64{"x": driver.All}); len(got) != tt.want {
			t.Errorf("%s: %d falls, want %d: %v", tt.name, len(got), tt.want, got)
		}
	}
}
