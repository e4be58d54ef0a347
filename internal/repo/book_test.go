package repo

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The pages are one book: docs/README.md lists them all; every link, every page that a comment names, and every test that
// a page names is there; the figures of a page of conclusions stand in the evidence that it links; and the book is not too
// long to be read.

const (
	index      = "docs/README.md"
	bookWords  = 80_000 // that its pages may have, without the evidence, translations and the part about the lock service
	served     = "docs/serve/"
	serveWords = 10_000 // that the pages of that part may have
)

func TestBookLinks(t *testing.T)    { report(t, brokenLinks(load(t))) }
func TestBookIndex(t *testing.T)    { report(t, unlisted(load(t))) }
func TestBookMentions(t *testing.T) { report(t, missingPages(load(t))) }
func TestBookFigures(t *testing.T)  { report(t, otherFigures(load(t))) }
func TestBookTests(t *testing.T)    { report(t, missingTests(load(t))) }
func TestBookWords(t *testing.T)    { report(t, tooManyWords(load(t))) }

var (
	fence     = regexp.MustCompile("(?ms)^[ ]*```.*?^[ ]*```$")
	inline    = regexp.MustCompile("`[^`\n]*`")
	linked    = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	titled    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	mentioned = regexp.MustCompile(`\bdocs/[\w/.-]*\.md\b`)
	tested    = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	quoting   = regexp.MustCompile(`(?m)^\| \[[^\]]*\]\(((?:\.\./|docs/)evidence/[\w/-]+\.md)\) (\|.*)\|$`)
	cited     = regexp.MustCompile(`^[\d,.]+(?: of [\d,.]+)?`)
)

// pages keeps the Markdown files.
func pages(files []*file) []*file {
	return slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return path.Ext(f.path) != ".md" })
}

// blank returns a text with its matches made spaces, so that lines keep their numbers.
func blank(text string, what *regexp.Regexp) string {
	return what.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	})
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(blank(text, fence), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, titled.ReplaceAllString(h[1], "$1"))
		name := slug
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", slug, n)
		}
		all[name] = true
	}
	return all
}

// brokenLinks finds links of pages to files, folders and headings that are not there.
func brokenLinks(files []*file) (problems []string) {
	there, text := map[string]bool{".": true}, map[string]string{}
	for _, f := range files {
		text[f.path] = f.text
		for p := f.path; p != "."; p = path.Dir(p) {
			there[p] = true
		}
	}
	for _, f := range pages(files) {
		prose := blank(blank(f.text, fence), inline)
		for _, at := range linked.FindAllStringSubmatchIndex(prose, -1) {
			to, anchor := prose[at[2]:at[3]], ""
			if at[4] >= 0 {
				anchor = prose[at[4]:at[5]]
			}
			if strings.Contains(to, ":") {
				continue
			}
			page := f.path
			if to != "" {
				page = path.Join(path.Dir(f.path), to)
			}
			line := 1 + strings.Count(prose[:at[0]], "\n")
			switch {
			case !there[page]:
				problems = append(problems, fmt.Sprintf("%s:%d: %s is not there", f.path, line, page))
			case anchor != "" && !anchors(text[page])[anchor]:
				problems = append(problems, fmt.Sprintf("%s:%d: %s has no heading #%s", f.path, line, page, anchor))
			}
		}
	}
	return problems
}

// unlisted finds pages of the book that its index does not link.
func unlisted(files []*file) (problems []string) {
	var toc string
	for _, f := range files {
		if f.path == index {
			toc = f.text
		}
	}
	for _, f := range pages(files) {
		name, ok := strings.CutPrefix(f.path, path.Dir(index)+"/")
		if ok && f.path != index && !strings.Contains(toc, "]("+name+")") {
			problems = append(problems, fmt.Sprintf("%s: %s does not list it", f.path, index))
		}
	}
	return problems
}

// missingPages finds pages that a text names by their path, as comments do, and that are not there.
func missingPages(files []*file) (problems []string) {
	for _, f := range files {
		if path.Base(f.path) == "book_test.go" {
			continue
		}
		for _, name := range mentioned.FindAllString(f.text, -1) {
			if !slices.ContainsFunc(files, func(f *file) bool { return f.path == name }) {
				problems = append(problems, fmt.Sprintf("%s: %s is not there", f.path, name))
			}
		}
	}
	return problems
}

// otherFigures finds figures in rows that link a page of evidence which does not have them.
func otherFigures(files []*file) (problems []string) {
	rows := 0
	for _, f := range pages(files) {
		for _, row := range quoting.FindAllStringSubmatch(f.text, -1) {
			rows++
			page := path.Join(path.Dir(f.path), row[1])
			i := slices.IndexFunc(files, func(f *file) bool { return f.path == page })
			if i < 0 {
				continue // a broken link
			}
			for cell := range strings.SplitSeq(row[2], "|") {
				figure := cited.FindString(strings.TrimSpace(cell))
				if figure != "" && !regexp.MustCompile(`(^|[^\d,.])`+regexp.QuoteMeta(figure)+`($|[^\d,.])`).MatchString(files[i].text) {
					problems = append(problems, fmt.Sprintf("%s: %s does not have %s", f.path, page, figure))
				}
			}
		}
	}
	if rows == 0 {
		problems = append(problems, "no page has figures of the evidence")
	}
	return problems
}

// missingTests finds tests that a page names as the proof of a claim, and that are not there. The evidence may name tests
// of the commit that it was written by.
func missingTests(files []*file) (problems []string) {
	var tests strings.Builder
	for _, f := range golang(files) {
		if f.test() {
			tests.WriteString(f.text)
		}
	}
	for _, f := range pages(files) {
		if strings.HasPrefix(f.path, "docs/evidence/") {
			continue
		}
		for _, name := range tested.FindAllStringSubmatch(f.text, -1) {
			if !strings.Contains(tests.String(), "\nfunc "+name[1]+"(") {
				problems = append(problems, fmt.Sprintf("%s: %s is not there", f.path, name[1]))
			}
		}
	}
	return problems
}

// tooManyWords finds a book that is too long. Runs write the evidence, and a translation says nothing new.
func tooManyWords(files []*file) (problems []string) {
	words, ofService := 0, 0
	for _, f := range pages(files) {
		switch n := len(strings.Fields(f.text)); {
		case !strings.HasPrefix(f.path, "docs/") || strings.HasPrefix(f.path, "docs/evidence/") || strings.HasSuffix(f.path, chinese):
		case strings.HasPrefix(f.path, served):
			ofService += n
		default:
			words += n
		}
	}
	report := func(part string, words, most int) {
		if words > most {
			problems = append(problems, fmt.Sprintf("%s has %d words, and may have %d: cut what repeats", part, words, most))
		}
	}
	report("docs", words, bookWords)
	report(served, ofService, serveWords)
	return problems
}

// book makes files of pairs of a path and a text.
func book(t *testing.T, pairs ...string) (files []*file) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		f, err := parse(pairs[i], pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func TestBookChecks(t *testing.T) {
	full := strings.Repeat("word\n", bookWords-1)
	const page = "# A `page`, _or_ two\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"
	for _, tt := range []struct {
		name  string
		check func([]*file) []string
		files []string
		want  []string
	}{
		{"links", brokenLinks, []string{"a.md", "[x](docs/b.md) [y](docs) [z](https://x) [q](docs/b.md#twice-1)", "docs/b.md",
			page}, nil},
		{"code is no link", brokenLinks, []string{"a.md", "```go\nf[T](x)\n```\nand `f[T](x)`"}, nil},
		{"no file", brokenLinks, []string{"docs/a.md", "one\n[x](b.md)"}, []string{"docs/a.md:2: docs/b.md is not there"}},
		{"an own heading", brokenLinks, []string{"a.md", "# One\n[x](#one) [y](#two)"},
			[]string{"a.md:2: a.md has no heading #two"}},
		{"another's heading", brokenLinks, []string{"a.md", "[x](b.md#a-page-_or_-two) [y](b.md#no-heading)", "b.md", page},
			[]string{"a.md:1: b.md has no heading #no-heading"}},
		{"listed", unlisted, []string{index, "[a](x/a.md)", "docs/x/a.md", "", "b.md", ""}, nil},
		{"not listed", unlisted, []string{index, "x/a.md", "docs/x/a.md", ""},
			[]string{"docs/x/a.md: docs/README.md does not list it"}},
		{"named", missingPages, []string{"a.go", "package a // see docs/x/a.md", "docs/x/a.md", ""}, nil},
		{"named and gone", missingPages, []string{"a.go", "package a // see docs/a.md."},
			[]string{"a.go: docs/a.md is not there"}},
		{"tests", missingTests, []string{"a.md", "text (`TestOne`)", "a_test.go", "package a\n\nfunc TestOne() {}\n"}, nil},
		{"no such test", missingTests, []string{"a.md", "text (`TestOne`)", "a_test.go", "package a\n\nfunc TestOneMore() {}\n"},
			[]string{"a.md: TestOne is not there"}},
		{"figures", otherFigures, []string{"a.md", "| [R](docs/evidence/bench/r.md) | 1,994 | 3 µs |", "docs/evidence/bench/r.md", "1,994/s 3 µs"},
			nil},
		{"figures of a conclusion", otherFigures, []string{"docs/explain/a.md", "| [R](../evidence/r.md) | 3 of 12 | 0.5 s |",
			"docs/evidence/r.md", "| 3 of 12 | 0.5 s |"}, nil},
		{"other figures of a conclusion", otherFigures, []string{"docs/explain/a.md", "| [R](../evidence/r.md) | 3 of 12 |",
			"docs/evidence/r.md", "| 3 of 13 |"}, []string{"docs/explain/a.md: docs/evidence/r.md does not have 3 of 12"}},
		{"no figures", otherFigures, []string{"a.md", "text"}, []string{"no page has figures of the evidence"}},

		{"old figures", otherFigures, []string{"a.md", "| [R](docs/evidence/bench/r.md) | 994 | 3 µs |", "docs/evidence/bench/r.md", "1,994/s 3 µs"},
			[]string{"a.md: docs/evidence/bench/r.md does not have 994"}},
		{"as many words as may be", tooManyWords, []string{"docs/a.md", full, "docs/x/b.md", "word"}, nil},
		{"words that do not count", tooManyWords, []string{"docs/a.md", full, "docs/evidence/a.md", full, "docs/a.zh-CN.md", full, "a.md", full}, nil},
		{"a word too many", tooManyWords, []string{"docs/a.md", full, "docs/x/b.md", "one word"},
			[]string{"docs has 80001 words, and may have 80000: cut what repeats"}},
		{"the lock service beside a full book", tooManyWords, []string{"docs/a.md", full, "docs/serve/b.md", "one word"}, nil},
		{"a word too many about the lock service", tooManyWords, []string{"docs/serve/b.md", strings.Repeat("word\n", serveWords+1)},
			[]string{"docs/serve/ has 10001 words, and may have 10000: cut what repeats"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.check(book(t, tt.files...)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
