// Package judge decides whether the answers to several clients of a store can all be right.
//
// It is pure: it gets the calls on one name, each with its time and its answer, and looks for an order of them in which
// [driver.Queue] gives the same answers. It knows nothing of the store and the callers.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A History is the calls that several clients of a store made on one name, each with its answer.
type History struct {
	Name     string
	Capacity int64
	Traits   driver.Traits
	Halfway  bool    // others may see claims that have half entered or half left: then no places are compared
	Calls    []*Call // in the order in which they began
}

// Fault returns the first impossible answer, and the calls until then; empty if there is none.
func (h *History) Fault() string {
	if wrong := cmp.Or(h.believed(), h.goneBySelf()); wrong != "" {
		return wrong + h.String()
	}
	if !h.Traits.Ordered || h.Halfway {
		return ""
	}
	impossible, before := explain(append(slices.Clone(h.Calls), lapses(h.Calls, h.Traits.Granularity)...))
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
func (h *History) String() string { return h.before(nil) }

// before lists the calls that began before one of them ended, or all of them.
func (h *History) before(last *Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nthe calls on %q:", h.Name)
	for _, one := range h.Calls {
		if last == nil || one.Began <= last.Ended {
			fmt.Fprintf(&b, "\n\t%v", one)
		}
	}
	return b.String()
}
