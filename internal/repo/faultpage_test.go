package repo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The beginning of the page; the rest is made of the table.
const faultHead = `# What may go wrong, and what shows that it does no harm, for each store

Tests make each fault below on each store where the fault can happen. A real server is killed, stopped, cut off, filled or set,
or the way to the server is. [What may go wrong](../explain/faults.md) has the conclusions, and [runs under
faults](../explain/chaos.md) make many faults at once, in an order that a seed draws.

- **contract**: a case of package ` + "`drivertest`" + `, which runs on each store. If a store's traits lack a power
  that the case needs, the case is skipped, and does not count for this store.
- **client**: a test of the code above every driver, in virtual time or on the store ` + "`memory`" + `, so it counts for each store.
- If a row names no test for a store, the row says why.

The table is ` + "`" + faultTable + "`" + `; ` + "`go test ./internal/repo -update`" + ` makes this page of it.
This test fails if the page names a test that does not exist, or if a store has neither a test nor a reason.

## At a glance

● a test on this store, or a case of the contract that runs on it; ○ only a test above the drivers; – no test, for the reason
below; empty: the fault cannot happen on this store.

`

// page is the table for people.
func (b *faultBook) page() string {
	var w strings.Builder
	w.WriteString(faultHead)
	fmt.Fprint(&w, "| fault |")
	for _, s := range b.stores {
		fmt.Fprintf(&w, " %s |", s.words)
	}
	fmt.Fprint(&w, "\n| --- |", strings.Repeat(" --- |", len(b.stores)), "\n")
	for i, r := range b.rows {
		fmt.Fprintf(&w, "| %d. %s |", i+1, r.title)
		for _, s := range b.stores {
			fmt.Fprintf(&w, " %s |", r.mark(b, s.id))
		}
		w.WriteString("\n")
	}
	w.WriteString("\n## Each fault\n")
	for i, r := range b.rows {
		fmt.Fprintf(&w, "\n### %d. %s\n\n%s\n\n", i+1, r.title, r.outcome)
		if len(r.cases) > 0 {
			fmt.Fprintf(&w, "- contract: %s\n", ticked(r.cases))
			w.WriteString(r.skipped(b))
		}
		if len(r.client) > 0 {
			fmt.Fprintf(&w, "- client: %s\n", places(r.client))
		}
		for _, s := range b.stores {
			if tests := r.tests[s.id]; len(tests) > 0 {
				fmt.Fprintf(&w, "- %s: %s\n", s.words, places(tests))
			}
		}
		for _, s := range b.stores {
			if why := r.exceptions[s.id]; why != "" {
				fmt.Fprintf(&w, "- %s has no test: %s\n", s.words, why)
			}
		}
		if r.others != "" {
			fmt.Fprintf(&w, "- Left out: %s.\n", r.others)
		}
	}
	return w.String()
}

func (r *faultRow) mark(b *faultBook, id string) string {
	switch _, excepted := r.exceptions[id]; {
	case !slices.Contains(r.stores, id):
		return ""
	case excepted:
		return "–"
	case len(r.casesOn(b, id))+len(r.tests[id]) > 0:
		return "●"
	}
	return "○"
}

func ticked(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// places names tests, with the folders that they are in.
func places(tests []faultTest) string {
	var parts []string
	for i, t := range tests {
		name := "`" + t.name + "`"
		if i+1 == len(tests) || tests[i+1].dir != t.dir {
			name += " in `" + cmp.Or(strings.TrimPrefix(t.dir, "."), "stile") + "`"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}
