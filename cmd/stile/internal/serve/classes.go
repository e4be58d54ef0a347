package serve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// maxClasses is the most classes in the metrics, beside the one of all other names.
const maxClasses = 90

// classes returns the function that maps a name to its class: the longest of the prefixes that it begins with, or "".
func classes(prefixes []string) (func(name string) string, error) {
	if len(prefixes) > maxClasses {
		return nil, fmt.Errorf("there are %d, and at most %d", len(prefixes), maxClasses)
	}
	for _, p := range prefixes {
		if err := driver.CheckName(p); err != nil {
			return nil, fmt.Errorf("%.40q is not the beginning of a name: %w", p, err)
		}
	}
	longest := slices.SortedFunc(slices.Values(prefixes), func(a, b string) int { return len(b) - len(a) })
	return func(name string) string {
		for _, p := range longest {
			if strings.HasPrefix(name, p) {
				return p
			}
		}
		return ""
	}, nil
}
