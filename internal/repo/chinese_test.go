package repo

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Chinese page follows its English page: it has the same headings in its own words, the same code to the byte, and
// in each section the same inline code and links. It links to its brother, which links back.

func TestChinesePages(t *testing.T) { report(t, outOfStep(load(t))) }

const chinese = ".zh-CN.md"

// A passage is a heading of a page and what stands under it, or a block of code in it.
type passage struct {
	line  int
	kind  string // "heading" or "block"
	text  string
	terms []string // of a heading: the inline code and the linked files of its section, sorted
}

func (p passage) String() string {
	first := p.text
	if p.kind == "block" {
		_, first, _ = strings.Cut(p.text, "\n")
	}
	first, _, _ = strings.Cut(first, "\n")
	return fmt.Sprintf("%s %q", p.kind, strings.TrimSpace(first))
}

// level is the number of a heading's signs.
func (p passage) level() int { return len(p.text) - len(strings.TrimLeft(p.text, "#")) }

var headingLine = regexp.MustCompile(`(?m)^#{1,6} .*$`)

// passages returns the headings and blocks of a page, in order.
func passages(text string) (list []passage) {
	add := func(kind string, at []int) {
		list = append(list, passage{line: 1 + strings.Count(text[:at[0]], "\n"), kind: kind, text: text[at[0]:at[1]]})
	}
	for _, at := range fence.FindAllStringIndex(text, -1) {
		add("block", at)
	}
	bare := blank(text, fence)
	heads := headingLine.FindAllStringIndex(bare, -1)
	for i, at := range heads {
		add("heading", at)
		end := len(bare)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		terms := inline.FindAllString(bare[at[0]:end], -1)
		for _, link := range linked.FindAllStringSubmatch(bare[at[0]:end], -1) {
			terms = append(terms, strings.Replace(link[1], ".zh-CN.", ".", 1)) // a page, or a picture with Chinese texts
		}
		slices.Sort(terms)
		list[len(list)-1].terms = slices.Compact(terms)
	}
	slices.SortFunc(list, func(a, b passage) int { return a.line - b.line })
	return list
}

// outOfStep finds Chinese pages that are not as their English pages are.
func outOfStep(files []*file) (problems []string) {
	for _, f := range pages(files) {
		name, ok := strings.CutSuffix(f.path, chinese)
		if !ok {
			continue
		}
		i := slices.IndexFunc(files, func(f *file) bool { return f.path == name+".md" })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("%s: %s.md is not there", f.path, name))
			continue
		}
		problems = append(problems, differences(files[i], f)...)
		for _, link := range []struct{ from, to *file }{{f, files[i]}, {files[i], f}} {
			first, _, _ := strings.Cut(link.from.text, "\n## ")
			if to := path.Base(link.to.path); !strings.Contains(first, "]("+to+")") {
				problems = append(problems, fmt.Sprintf("%s: no link to %s above the first section", link.from.path, to))
			}
		}
	}
	return problems
}

// differences compares a translation with its page, up to the first passage that one has and the other does not.
func differences(page, translated *file) (problems []string) {
	want, got := passages(page.text), passages(translated.text)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return append(problems, fmt.Sprintf("%s: %s of %s:%d is missing", translated.path, want[i], page.path, want[i].line))
		case i >= len(want):
			return append(problems, fmt.Sprintf("%s:%d: %s is not in %s", translated.path, got[i].line, got[i], page.path))
		}
		w, g := want[i], got[i]
		here, there := fmt.Sprintf("%s:%d", translated.path, g.line), fmt.Sprintf("%s:%d", page.path, w.line)
		switch {
		case w.kind != g.kind || w.kind == "heading" && w.level() != g.level():
			return append(problems, fmt.Sprintf("%s: %s stands where %s has %s of level %d", here, g, there, w, w.level()))
		case w.kind == "block" && w.text != g.text:
			is, was := otherLine(w.text, g.text)
			problems = append(problems, fmt.Sprintf("%s: %s is not the one of %s: it has %q in place of %q", here, g, there, is, was))
		case !slices.Equal(w.terms, g.terms):
			problems = append(problems, fmt.Sprintf("%s: section %s: %s", here, g, otherTerms(w.terms, g.terms, there)))
		}
	}
	return problems
}

// otherLine returns the first lines in which two blocks differ.
func otherLine(page, translated string) (is, was string) {
	want, got := strings.Split(page, "\n"), strings.Split(translated, "\n")
	i := 0
	for i < len(want)-1 && i < len(got)-1 && want[i] == got[i] {
		i++
	}
	return got[i], want[i]
}

// otherTerms says which inline code and links one section has and the other does not.
func otherTerms(want, got []string, there string) string {
	lacks := func(from, in []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(from), func(s string) bool { return slices.Contains(in, s) }), ", ")
	}
	return fmt.Sprintf("lacks [%s] of %s, and has [%s] more", lacks(want, got), there, lacks(got, want))
}

func TestChinesePagesCheck(t *testing.T) {
	const page = "# A\n\n[中文](a.zh-CN.md)\n\n## One\n\nuse `-x`\n\n```sh\n# comment\nls\n```\n\n### Two\n\n## Three\n"
	const same = "# 甲\n\n[English](a.md)\n\n## 一\n\n用 `-x`\n\n```sh\n# comment\nls\n```\n\n### 二\n\n## 三\n"
	for _, tt := range []struct {
		name, page, translated string
		want                   []string
	}{
		{"in step", page, same, nil},
		{"no brother", "", same, []string{"a.zh-CN.md: a.md is not there"}},
		{"a heading more", page, same + "## 四\n", []string{`a.zh-CN.md:17: heading "## 四" is not in a.md`}},
		{"a heading less", page + "## Four\n", same, []string{`a.zh-CN.md: heading "## Four" of a.md:17 is missing`}},
		{"a level", page, strings.Replace(same, "### 二", "## 二", 1),
			[]string{`a.zh-CN.md:14: heading "## 二" stands where a.md:14 has heading "### Two" of level 3`}},
		{"a block", page, strings.Replace(same, "ls", "ls -l", 1),
			[]string{`a.zh-CN.md:9: block "# comment" is not the one of a.md:9: it has "ls -l" in place of "ls"`}},
		{"a line of a block", page, strings.Replace(same, "ls\n", "", 1),
			[]string{"a.zh-CN.md:9: block \"# comment\" is not the one of a.md:9: it has \"```\" in place of \"ls\""}},
		{"the language of a block", page, strings.Replace(same, "```sh", "```go", 1),
			[]string{"a.zh-CN.md:9: block \"# comment\" is not the one of a.md:9: it has \"```go\" in place of \"```sh\""}},
		{"inline code", page, strings.Replace(same, "`-x`", "`-y`", 1),
			[]string{"a.zh-CN.md:5: section heading \"## 一\": lacks [`-x`] of a.md:5, and has [`-y`] more"}},
		{"a link", page + "[x](x.md#one)\n", same + "[x](y.md)\n",
			[]string{`a.zh-CN.md:16: section heading "## 三": lacks [x.md] of a.md:16, and has [y.md] more`}},
		{"a link to a translation", page + "[x](x.md#one)\n", same + "[x](x.zh-CN.md#一)\n", nil},
		{"no link", strings.Replace(page, "a.zh-CN.md", "b.md", 1), strings.Replace(same, "a.md", "b.md", 1),
			[]string{"a.zh-CN.md: no link to a.md above the first section", "a.md: no link to a.zh-CN.md above the first section"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pairs := []string{"a.zh-CN.md", tt.translated}
			if tt.page != "" {
				pairs = append(pairs, "a.md", tt.page)
			}
			if got := outOfStep(book(t, pairs...)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
