package main

import (
	"strings"
	"testing"
)

// renew replaces the rows of the mistakes in the run, keeps others, removes rows without a patch, and corrects the sum.
func TestRenew(t *testing.T) {
	const (
		one = "| `one` |  | 3 transitions, 0.0 s |  |  |  |\n"
		two = "| `two` | M1 |  |  |  | `TestTwo`, 0.1 s |\n"
	)
	sum := func(of, general, own string) string {
		return "\nOf " + of + " mistakes " + general + " are found by something that was not written for them, and " + own +
			" by their own test only.\n"
	}
	from := "# Page\n" + begin + header + one + two + "| `was` |  |  |  |  | `TestWas`, 0.1 s |\n" + sum("3", "1", "2") + end + "\nmore\n"
	for _, tt := range []struct {
		name string
		rows map[string]string
		want string // between the marks
	}{
		{"nothing was run", nil, one + two + sum("2", "1", "1")},
		{
			"found otherwise", map[string]string{"two": "| `two` | M1 |  | 3 seeds, 0.1 s |  |  |"},
			one + "| `two` | M1 |  | 3 seeds, 0.1 s |  |  |\n" + sum("2", "2", "0"),
		},
		{
			"a new one", map[string]string{"ten": "| `ten` |  |  |  |  | `TestTen`, 0.1 s |"},
			one + "| `ten` |  |  |  |  | `TestTen`, 0.1 s |\n" + two + sum("3", "1", "2"),
		},
	} {
		got, err := renew(from, tt.rows, []string{"one", "ten", "two"})
		if want := "# Page\n" + begin + header + tt.want + end + "\nmore\n"; err != nil || got != want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", tt.name, err, got, want)
		}
	}
	if _, err := renew("# Page\n"+strings.TrimSpace(begin)+"\n", nil, nil); err == nil {
		t.Error("a page without an end of its matrix is renewed")
	}
}
