package server_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stilelock/stile/server"
)

// routes are the methods of each path in a description, also of the paths that a note names.
func (d *description) routes() map[string][]string {
	all := map[string][]string{}
	for path, methods := range d.Paths {
		for method := range methods {
			if method != "parameters" {
				all[path] = append(all[path], strings.ToUpper(method))
			}
		}
	}
	for _, tag := range d.Tags {
		for _, m := range regexp.MustCompile("(?m)^- `([A-Z]+) (/\\S+)`: ").FindAllStringSubmatch(tag.Description, -1) {
			all[m[2]] = append(all[m[2]], m[1])
		}
	}
	return all
}

// The description has exactly the requests that the service answers, except those of its page.
func TestOpenAPIPaths(t *testing.T) {
	_, url := start(t, newFake(), &server.Options{Consul: true, Keys: replicaKeys})
	d := descriptionBy(t, http.DefaultTransport, url)
	routes := d.routes()
	for path, methods := range routes {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
			r, err := http.NewRequestWithContext(t.Context(), method, url+regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "a"), nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			if res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			none := res.StatusCode == http.StatusMethodNotAllowed ||
				res.StatusCode == http.StatusNotFound && regexp.MustCompile("has no request|does not have Consul's").Match(text)
			if none == slices.Contains(methods, method) {
				t.Errorf("%s %s = %s %s; it has the methods %v", method, path, res.Status, text, methods)
			}
		}
	}
	known := func(path string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(routes)), func(described string) bool {
			return described == path || strings.HasPrefix(described, strings.TrimSuffix(path, "/")+"/")
		})
	}
	found := 0
	for path, where := range pathsInSource(t) {
		if found++; !known(path) && path != "/page/" {
			t.Errorf("%s: %s is not described", where, path)
		}
	}
	if found < len(d.Paths) {
		t.Errorf("the source has %d paths, and the description %d", found, len(d.Paths))
	}
}

// pathsInSource returns the paths that stand in the source of the service, and where: as a text, or as a verb of Consul's sessions.
func pathsInSource(t *testing.T) map[string]gotoken.Position {
	t.Helper()
	all, set := map[string]gotoken.Position{}, gotoken.NewFileSet()
	note := func(n ast.Node, before string) {
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != gotoken.STRING {
			return
		}
		text, err := strconv.Unquote(l.Value)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`^(?:[A-Z]+ )?(/[a-z0-9]{2}[\w/.-]*)$`).FindStringSubmatch(before + text); m != nil {
			all[m[1]] = set.Position(l.Pos())
		}
	}
	for _, dir := range []string{".", "internal/consul", "../internal/api"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				note(n, "")
				s, ok := n.(*ast.SwitchStmt)
				if !ok {
					return true
				}
				if tag, ok := s.Tag.(*ast.Ident); ok && tag.Name == "verb" {
					for _, c := range s.Body.List {
						for _, verb := range c.(*ast.CaseClause).List {
							note(verb, "/v1/session/")
						}
					}
				}
				return true
			})
		}
	}
	return all
}
