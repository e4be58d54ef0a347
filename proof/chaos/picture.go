//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/stilelock/stile/driver"
)

// A picture is a page with one name's history along the time, and the faults above it: when each call was made, the longest
// order that the model allows, and where this order ends. The page needs no other files.

// pictures writes a page for each name whose history is in no order or, if the run failed in another way, for all names. A
// page's file has the name of the run's text with the lock's name appended.
func (o *outcome) pictures(text string) (paths []string, err error) {
	names := o.unordered
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(o.histories))
	}
	for _, name := range names {
		path := strings.TrimSuffix(text, ".txt") + "-" + strings.ReplaceAll(name, "/", "-") + ".html"
		f, e := os.Create(path)
		if e != nil {
			return paths, errors.Join(err, e)
		}
		err = errors.Join(err, o.picture(name, f), f.Close())
		paths = append(paths, path)
	}
	return paths, err
}

func (o *outcome) picture(name string, out *os.File) error {
	h := o.histories[name]
	m := model(h.capacity)
	m.DescribeOperation = func(input, _ any) string { return input.(*step).String() }
	m.DescribeState = func(state any) string { return state.(*line).String() }
	_, info := porcupine.CheckOperationsVerbose(m, packed(h.list), patience)
	var marks []porcupine.Annotation
	for _, hit := range o.hits {
		marks = append(marks, porcupine.Annotation{Tag: "faults", Start: int64(hit.begin), End: int64(hit.end), Description: hit.what})
	}
	info.AddAnnotations(marks)
	return porcupine.Visualize(m, info, out)
}

// packed puts operations that do not overlap into one row, so that there are as few rows as possible, and gives operations
// without an end an end after all others.
func packed(list []porcupine.Operation) []porcupine.Operation {
	list = slices.SortedStableFunc(slices.Values(list), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	last := int64(0)
	for _, o := range list {
		last = max(last, o.Call)
		if o.Return != forever {
			last = max(last, o.Return)
		}
	}
	var rows []int64 // the time until which each row is used
	for i := range list {
		list[i].Return = min(list[i].Return, last+1)
		row := slices.IndexFunc(rows, func(until int64) bool { return until < list[i].Call })
		if row < 0 {
			row, rows = len(rows), append(rows, 0)
		}
		rows[row], list[i].ClientId = list[i].Return, row
	}
	return list
}

func (s *step) String() string {
	who := fmt.Sprintf("hold %d of worker %d", s.hold, s.worker)
	if s.ends {
		return "end of " + who
	}
	return fmt.Sprintf("%s: %s%s", who, weightText(s.weight), tokenText(s.token))
}

func (n *line) String() string {
	text := "nobody holds"
	for i, s := range n.inside {
		sep := "; "
		if i == 0 {
			text, sep = "", ""
		}
		text += sep + s.String()
	}
	return text + fmt.Sprintf(". Largest token: %d", n.top)
}

func weightText(weight int64) string {
	if weight == driver.All {
		return "all of the name"
	}
	return fmt.Sprintf("%d of the name", weight)
}

func tokenText(token int64) string {
	if token == 0 {
		return ""
	}
	return fmt.Sprintf(", token %d", token)
}
