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

// powers are what cases of the contract call the traits that a driver may lack.
var powers = map[string]string{
	"TraitOrder": "ordered", "TraitReaders": "shared", "TraitPermits": "permits", "TraitFencing": "fencing",
	"TraitLockDelay": "delay", "TraitAmend": "amends",
}

// lacking returns what the test of a store's contract says that the store lacks, which it compares with the store's traits:
// drive.Lacks(t, open, driver.TraitOrder). It reports false if the test does not say it.
func lacking(files []*file, contract faultTest) (lacks []string, says bool) {
	for _, f := range files {
		if f.syntax == nil || !f.test() || path.Dir(f.path) != contract.dir {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); !ok || fn.Recv != nil || fn.Name.Name != contract.name {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) < 2 || !slices.Equal(idents(call.Fun), []string{"drive", "Lacks"}) {
					return true
				}
				says = true
				for _, trait := range call.Args[2:] {
					for _, name := range idents(trait) {
						if power := powers[name]; power != "" {
							lacks = append(lacks, power)
						}
					}
				}
				return false
			})
		}
	}
	return lacks, says
}

// needs returns which powers the cases of the contract need, as they are declared: {"Name", "Sentence", powers, check}.
func needs(files []*file) map[string][]string {
	found := map[string][]string{}
	for _, f := range files {
		if f.syntax == nil || f.test() || path.Dir(f.path) != "driver/drivertest" {
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

// passedOver finds cases of the contract about requests that are late, and answers that are lost, which no row has.
func (b *faultBook) passedOver() (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(b.needs)) {
		fault := strings.Contains(name, "Late") || strings.Contains(name, "Lost")
		if fault && !slices.ContainsFunc(b.rows, func(r *faultRow) bool { return slices.Contains(r.cases, name) }) {
			problems = append(problems, fmt.Sprintf("%s: no row has the case %s", faultTable, name))
		}
	}
	return problems
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
