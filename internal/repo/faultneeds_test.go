package repo

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A case of the contract is skipped on a store whose traits lack what it needs: it shows nothing of that store.

// lack takes a line that says what the traits of a store lack, and reports whether it is one.
func (b *faultBook) lack(key, value string) bool {
	id, ok := strings.CutPrefix(key, "lacks ")
	s := b.store(id)
	if !ok || s == nil {
		return false
	}
	s.lacks = strings.Fields(value)
	return true
}

// needs returns which powers the cases of the contract need, as they are declared: {"Name", "Sentence", powers, check}.
func needs(files []*file) map[string][]string {
	found := map[string][]string{}
	for _, f := range files {
		if f.syntax == nil || f.test() || path.Dir(f.path) != "drivertest" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if c, ok := n.(*ast.CompositeLit); ok && c.Type == nil && len(c.Elts) == 4 {
				if name, ok := c.Elts[0].(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(name.Value)
					found[text] = idents(c.Elts[2])
				}
			}
			return true
		})
	}
	return found
}

// idents returns the names in an expression.
func idents(e ast.Expr) (names []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}

// casesOn returns the cases of a row that are not skipped on a store.
func (r *faultRow) casesOn(b *faultBook, id string) []string {
	s := b.store(id)
	return slices.DeleteFunc(slices.Clone(r.cases), func(name string) bool {
		return slices.ContainsFunc(b.needs[name], func(power string) bool { return slices.Contains(s.lacks, power) })
	})
}

// skipped says which cases of a row are skipped on which of its stores.
func (r *faultRow) skipped(b *faultBook) string {
	on := map[string][]string{} // the stores that skip the same cases
	for _, id := range r.stores {
		runs := r.casesOn(b, id)
		left := slices.DeleteFunc(slices.Clone(r.cases), func(name string) bool { return slices.Contains(runs, name) })
		if len(left) > 0 {
			on[ticked(left)] = append(on[ticked(left)], b.store(id).words)
		}
	}
	var text strings.Builder
	for _, cases := range slices.Sorted(maps.Keys(on)) {
		fmt.Fprintf(&text, "- contract without %s: %s\n", cases, strings.Join(on[cases], "; "))
	}
	return text.String()
}
