package main

import (
	"os"
	"strings"
	"testing"
)

var three = []part{{name: "lint"}, {name: "race"}, {name: "chaos-etcd"}}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name, named, states string
		want, fails         string
	}{
		{"none yet", "", "", "lint race chaos-etcd", ""},
		{"one passed", "", "passed", "race chaos-etcd", ""},
		{"failed comes last", "", "failed - -", "race chaos-etcd lint", ""},
		{"all passed", "", "passed passed passed", "", ""},
		{"named, though it passed", "race lint", "passed passed -", "race lint", ""},
		{"unknown", "chaos", "", "", "lint race chaos-etcd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			todo, err := next(three, strings.Fields(tt.named), states(tt.states))
			if got := strings.Join(names(todo), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("got %v, want an error with %q", err, tt.fails)
			}
		})
	}
}

// states reads the results of the three parts.
func states(text string) map[string]state {
	states := map[string]state{}
	for i, result := range strings.Fields(text) {
		if result != "-" {
			states[three[i].name] = state{result, 7}
		}
	}
	return states
}

func TestTable(t *testing.T) {
	for _, tt := range []struct{ name, states, want string }{
		{"some", "passed failed", `part        result       seconds
lint        passed       7
race        failed       7
chaos-etcd  not yet run  -
1 passed, 1 failed, 1 not yet run; make full goes on, make full PART=NAME makes one
`},
		{"all", "passed passed passed", `part        result  seconds
lint        passed  7
race        passed  7
chaos-etcd  passed  7
3 passed, 0 failed, 0 not yet run
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := table(three, states(tt.states)); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want state
	}{
		{state{passed, 12}.String(), state{passed, 12}},
		{"failed 3", state{failed, 3}},
		{"", state{}},
		{"passed", state{}},
		{"perhaps 3", state{}},
	} {
		if got := parse(tt.text); got != tt.want {
			t.Errorf("parse(%q) = %v, want %v", tt.text, got, tt.want)
		}
	}
}

// Each part has a name of its own and a target that is there, and no mutant, store or adapter is missing.
func TestList(t *testing.T) {
	const root = "../../.."
	all, err := list(root)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.name] {
			t.Errorf("there are two parts %s", p.name)
		}
		seen[p.name] = true
		if p.command[0] == "make" && !strings.Contains(string(makefile), "\n"+p.command[1]+":") {
			t.Errorf("the Makefile has no target %s", p.command[1])
		}
	}
	for _, name := range []string{"chaos-etcd", "chaos-sqlite", "chaos-mariadb", "chaos-serve", "adapter-kubelock", "adapter-certlock", "mutants-1", "race"} {
		if !seen[name] {
			t.Errorf("there is no part %s in %s", name, strings.Join(names(all), " "))
		}
	}
}
