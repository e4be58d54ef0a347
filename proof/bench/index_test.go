//go:build unix

package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/evidence/bench/README.md anew")

// The index agrees with the pages.
func TestIndex(t *testing.T) {
	const dir = "../../docs/evidence/bench"
	want, err := indexOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(want) {
		if strings.Contains(line, isMissed) && strings.HasSuffix(line, "|  |\n") {
			t.Errorf("it is not told why this is missed: %s", line)
		}
	}
	file := filepath.Join(dir, indexFile)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the pages say, %v; run go test ./proof/bench -run TestIndex -update", file, err)
	}
	for _, a := range allArenas() {
		for text := range reasons[a.key] {
			if !slices.ContainsFunc(a.targets, func(t target) bool { return t.text == text }) {
				t.Errorf("%s has no target %q, of which it is told why it is missed", a.page, text)
			}
		}
		if !strings.Contains(want, "]("+filepath.Base(a.page)+") |") {
			t.Errorf("%s has no row of %s", file, a.page)
		}
		by := a.outFlag() + "` in the folder proof/bench, not by hand.\n"
		if page, err := os.ReadFile("../../" + a.page); err != nil || !strings.Contains(string(page), by) {
			t.Errorf("%s does not say that it is written by go run .%s, %v", a.page, a.outFlag(), err)
		}
	}
}

const (
	indexedHead = "# Benchmarks: Redis\n\n## Targets\n\n| target | stile | compared with | ratio | bound | bare limit | ratio to that |  |\n" +
		"| --- | ---: | --- | ---: | ---: | --- | ---: | --- |\n"
	indexedMet    = "| quick | 1 µs | a: 2 µs | 0.5 | ≤ 1 |  |  | met |\n"
	indexedNear   = "| quicker | 3 µs | a: 2 µs | 1.5 | ≤ 1 | bare: 2.9 µs | 1.03 | within 15 % of the bare limit |\n"
	indexedMissed = "| quickest | 3 µs | a: 2 µs | 1.5 | ≤ 1 | bare: 2.9 µs | 1.03 | **missed**: a is faster |\n"
	indexedAlone  = "| light | 3 B | fixed: 2 B | 1.5 | ≤ 1 |  |  | **missed** |\n"
	indexedTail   = "\n## Other\n\n|  | x |\n| --- | ---: |\n| stile | 1 |\n\n- 1 May 2026, 10:00 UTC; load average 1\n"
)

// The index counts, shows all missed targets, and follows a page that is written beside it; other files stay.
func TestReindex(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	open := func(row string) string { return strings.TrimSuffix(row, "\n") + "  |\n" }
	page := write("redis.md", indexedHead+indexedMet+indexedNear+indexedMissed+indexedAlone+indexedTail)
	write("setnx.md", strings.Replace(indexedHead, "Redis", "SetNX", 1)+indexedMet+indexedTail)
	for _, test := range []struct{ before, want string }{
		{"# Benchmarks\nold\n", "| [Redis](redis.md) | 4 | 1 | 1 | 2 | 1 May 2026 |\n| [SetNX](setnx.md) | 1 | 1 | 0 | 0 | 1 May 2026 |\n| all | 5 | 2 | 1 | 2 |  |\n"},
		{"# Benchmarks\nold\n", "\n## What is not met\n\n### Redis\n\n| target | stile | compared with | ratio | bound | bare limit | ratio to that |  | why |\n" +
			"| --- | ---: | --- | ---: | ---: | --- | ---: | --- | --- |\n" + open(indexedNear) + open(indexedMissed) +
			"| light | 3 B | fixed: 2 B | 1.5 | ≤ 1 | none measured |  | **missed** |  |\n"},
		{"# Somebody's\n", "# Somebody's\n"},
	} {
		index := write(indexFile, test.before)
		if err := reindex(page); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(index); err != nil || !strings.Contains(string(got), test.want) {
			t.Errorf("%v, the index is\n%s\nwant in it\n%s", err, got, test.want)
		}
	}
	for what, text := range map[string]string{
		"redis.md is no page of benchmarks": "# Redis\n",
		"redis.md: 3 cells below 8 heads":   indexedHead + "| a | b | c |\n" + indexedTail,
		"redis.md: a target is neither":     indexedHead + "| a | b | c | d | e | f | g | perhaps |\n" + indexedTail,
	} {
		write("redis.md", text)
		if _, err := indexOf(dir); err == nil || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
}
