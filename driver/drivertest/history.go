package drivertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A history is the calls that several clients of a store made on one name, each with its answer.
type history struct {
	name     string
	capacity int64
	traits   driver.Traits
	halfway  bool    // claims may be seen while they come or go: then no places are compared
	calls    []*call // in the order in which they began
}

// fault tells which answer cannot be, and the calls until then; empty if there is none.
func (h *history) fault() string {
	if wrong := cmp.Or(h.believed(), h.goneBySelf()); wrong != "" {
		return wrong + h.String()
	}
	if !h.traits.Ordered || h.halfway {
		return ""
	}
	impossible, before := explain(append(slices.Clone(h.calls), lapses(h.calls, h.traits.Granularity)...))
	if impossible == nil {
		return ""
	}
	var queues []string
	for _, p := range before[:min(len(before), 5)] {
		queues = append(queues, "\n\t"+p.String())
	}
	slices.Sort(queues)
	return fmt.Sprintf("no order of the calls explains the answer of\n\t%v\nbefore it, the queue may have been one of %d:%s%s",
		impossible, len(before), strings.Join(slices.Compact(queues), ""), h.before(impossible))
}

// String lists all calls.
func (h *history) String() string { return h.before(nil) }

// before lists the calls that began before one of them ended, or all of them.
func (h *history) before(last *call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nthe calls on %q:", h.name)
	for _, one := range h.calls {
		if last == nil || one.began <= last.ended {
			fmt.Fprintf(&b, "\n\t%v", one)
		}
	}
	return b.String()
}
