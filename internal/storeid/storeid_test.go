package storeid

import (
	"errors"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

func TestDraw(t *testing.T) {
	one, other := Draw(), Draw()
	if one == other {
		t.Errorf("drew %q twice", one)
	}
	for _, id := range []string{one, other} {
		if got, err := Check("here", id); got != id || err != nil {
			t.Errorf("check of %q = %q, %v; want it back", id, got, err)
		}
	}
}

func TestCheck(t *testing.T) {
	id := strings.Repeat("A", shortest)
	for _, test := range []struct {
		text string
		good bool
	}{
		{id, true}, {id + "Z7", true}, {strings.Repeat("A", longest), true},
		{"", false}, {id[1:], false}, {strings.Repeat("A", longest+1), false},
		{id + "a", false}, {id + "1", false}, {id + "\n", false}, {id + "\xff", false}, {"{\"stile\":1}" + id, false},
	} {
		got, err := Check(`key "k"`, test.text)
		if good := err == nil && got == test.text; good != test.good {
			t.Errorf("check of %q = %q, %v; want it taken: %v", test.text, got, err, test.good)
		}
		if !test.good && (!errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), `key "k"`)) {
			t.Errorf("check of %q: %v; want ErrForeign, with the key", test.text, err)
		}
	}
}

// No name has this place.
func TestPlace(t *testing.T) {
	if name, err := driver.DecodeName(Place); err == nil {
		t.Errorf("%s is the name %q, encoded", Place, name)
	}
}
