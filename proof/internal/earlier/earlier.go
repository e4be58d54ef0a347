// Package earlier fits files of this tree to an earlier revision, in which packages stood in other folders.
package earlier

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// moved lists the folders of this tree that had another place, as new and old path from the root.
var moved = [][2]string{
	{"driver/drivertest", "drivertest"},
	{"proof/bench", "bench"},
	{"proof/benchbefore", "internal/repo/benchbefore"},
	{"proof/chaos", "chaos"},
	{"proof/explore", "internal/engine/explore"},
	{"proof/interop", "interop"},
	{"proof/models", "models"},
	{"proof/mutants", "internal/repo/mutants"},
	{"store/consul", "consul"},
	{"store/etcd", "etcd"},
	{"store/memcached", "memcached"},
	{"store/memory", "memory"},
	{"store/mysql", "mysql"},
	{"store/postgres", "postgres"},
	{"store/quorum", "quorum"},
	{"store/redis", "redis"},
	{"store/shard", "shard"},
	{"store/sqldb", "sqldb"},
	{"store/sqlite", "sqlite"},
	{"store/sqlrow", "sqlrow"},
	{"store/zookeeper", "zookeeper"},
}

const project = "github.com/stilelock/stile/"

var ownPath = regexp.MustCompile(`"` + regexp.QuoteMeta(project) + `[^"]*"`)

// Path returns the path of a folder in an earlier tree. The argument and the result start at the root and have slashes. A
// path that never moved stays the same.
func Path(tree, path string) string {
	for _, m := range moved {
		rest, ok := strings.CutPrefix(path+"/", m[0]+"/")
		if !ok || is(tree, m[0]) || !is(tree, m[1]) {
			continue
		}
		return strings.TrimSuffix(m[1]+"/"+rest, "/")
	}
	return path
}

func is(tree, folder string) bool {
	info, err := os.Stat(filepath.Join(tree, filepath.FromSlash(folder)))
	return err == nil && info.IsDir()
}

// Fit returns a Go source of this tree with the import paths of an earlier tree.
func Fit(tree, source string) string {
	return ownPath.ReplaceAllStringFunc(source, func(quoted string) string {
		path := strings.TrimPrefix(strings.Trim(quoted, `"`), project)
		return `"` + project + Path(tree, path) + `"`
	})
}
