package serve

import (
	"slices"
	"testing"
)

// A name has the class of the longest prefix that it begins with.
func TestClasses(t *testing.T) {
	class, err := classes([]string{"jobs/", "jobs/nightly/", "orders/"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"jobs/a": "jobs/", "jobs/nightly/a": "jobs/nightly/", "orders/": "orders/", "jobs": "", "other": "",
	} {
		if got := class(name); got != want {
			t.Errorf("%s has the class %q; want %q", name, got, want)
		}
	}
	for _, wrong := range [][]string{{""}, {"a\x00"}, {"jobs/", "\xff"}, slices.Repeat([]string{"a"}, 91)} {
		if _, err := classes(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
