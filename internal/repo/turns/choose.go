package main

import (
	"path"
	"strings"
	"time"
)

// A part is a target of the Makefile.
type part struct {
	name  string
	takes time.Duration // on two processors
	// Touched are the files that it belongs to: folders, which end with a slash, and names of files, wherever they
	// are.
	touched []string
}

var parts = []part{
	{"mutants", 175 * time.Second, []string{"proof/mutants/", "proof/explore/", "internal/engine/", "internal/claims/"}},
	{"interop", 275 * time.Second, []string{"proof/interop/", "proof/bench/java/", "internal/java/", "store/redis/",
		"store/etcd/",
		"store/consul/", "store/zookeeper/", "store/sqlrow/"}},
	{"newer-two", 85 * time.Second, []string{"internal/servers/newest/", "store/postgres/", "store/mysql/", "store/sqldb/",
		"store/sqlrow/"}},
	{"adapters-two", 35 * time.Second, []string{"adapters/", "internal/metrics/", "internal/turntest/"}},
	{"release-dry", 60 * time.Second, []string{"internal/repo/release/", "internal/repo/tidy/", "go.mod", "go.work"}},
}

// touches returns the first of some files that the part belongs to.
func (p *part) touches(files []string) string {
	for _, file := range files {
		for _, pattern := range p.touched {
			if strings.HasSuffix(pattern, "/") && strings.HasPrefix(file, pattern) || path.Base(file) == pattern {
				return file
			}
		}
	}
	return ""
}

// A choice is a part that is chosen or left out, and why.
type choice struct {
	part
	why string
}

// choose divides the parts. The part with the turn comes first among the touched parts, and then among the others.
func choose(parts []part, c *change, budget time.Duration) (chosen, left []choice) {
	var touched, others []choice
	for i := range parts {
		p := parts[(c.turn+i)%len(parts)]
		if file := p.touches(c.files); file != "" {
			touched = append(touched, choice{p, "the change touches " + file})
		} else {
			others = append(others, choice{p, "its turn"})
		}
	}
	for _, p := range append(touched, others...) {
		switch {
		case len(chosen) == 0 || p.takes <= budget:
			chosen = append(chosen, p)
			budget -= p.takes
		case p.why == "its turn":
			left = append(left, choice{p.part, "another commit has its turn"})
		default:
			left = append(left, choice{p.part, p.why + ", but there is no time for it"})
		}
	}
	return chosen, left
}
