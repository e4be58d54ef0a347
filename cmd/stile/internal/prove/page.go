package prove

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// Page returns the report as a self-contained page of HTML. It names the store by its URL, without a password.
func (o *Report) Page(store string) ([]byte, error) {
	pictures, err := o.Draw()
	if err != nil {
		return nil, err
	}
	p := &page{}
	p.add(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>stile prove: %s</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #d1d9e0;padding:.3em .6em;text-align:left}
svg{max-width:100%%;height:auto;margin:.5rem 0}.v{padding:.8rem 1rem;border-radius:6px;font-size:1.2rem;font-weight:600;border:2px solid}
.passed{border-color:#1a7f37}.failed{border-color:#cf222e}.inconclusive{border-color:#9a6700}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}}
</style></head><body>
`, o.Verdict)
	p.add("<h1>stile prove</h1>\n<p class=\"v %s\">%s: %s</p>\n", string(o.Verdict), string(o.Verdict), meaning[o.Verdict])
	p.list("What was found", o.Findings)
	p.list("Why nothing is shown", o.Why)
	p.facts(o, store)
	p.faults(o)
	p.names(o)
	p.data(o)
	p.list("What was not tested, and why", o.Untested)
	p.add("<h2>When</h2>\n")
	for _, picture := range pictures.Faults {
		p.add("<p>%s</p>\n", picture.Text)
		p.b.Write(picture.SVG)
	}
	p.add("<h2>How long</h2>\n")
	for _, svg := range pictures.Times {
		p.b.Write(svg)
	}
	p.add("</body></html>\n")
	return []byte(p.b.String()), nil
}

// meaning explains each verdict.
var meaning = map[Verdict]string{
	Passed:       "each kind of fault hit that the clients of this store can meet, and nothing was found that must not be",
	Failed:       "something was found that must not be",
	Inconclusive: "nothing was found, but this run does not show that there is nothing",
}

// Meaning returns the meaning of the verdict.
func (o *Report) Meaning() string { return meaning[o.Verdict] }

// A page is a page of HTML under construction.
type page struct{ b strings.Builder }

// add adds HTML. The arguments of its verbs are text, which is escaped.
func (p *page) add(format string, args ...any) {
	for i, a := range args {
		args[i] = html.EscapeString(fmt.Sprint(a))
	}
	fmt.Fprintf(&p.b, format, args...)
}

func (p *page) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	p.add("<h2>%s</h2>\n<ul>\n", title)
	for _, item := range items {
		p.add("<li>%s</li>\n", item)
	}
	p.add("</ul>\n")
}

func (p *page) row(cells ...any) {
	p.add("<tr>")
	for _, c := range cells {
		p.add("<td>%s</td>", c)
	}
	p.add("</tr>\n")
}

func (p *page) head(title string, cells ...string) {
	p.add("<h2>%s</h2>\n<table><tr>", title)
	for _, c := range cells {
		p.add("<th>%s</th>", c)
	}
	p.add("</tr>\n")
}

func (p *page) facts(o *Report, store string) {
	p.head("The run")
	p.row("store", store+", "+o.Traits.Store+" "+o.Traits.Server)
	p.row("begun", o.Begun.UTC().Format(time.RFC3339))
	p.row("took", rounded(o.took))
	p.row("clients", fmt.Sprintf("%d processes with four goroutines each, leases of %v", o.Workers, o.TTL))
	p.row("seed", o.Seed)
	for _, a := range o.Away {
		p.row("store away", fmt.Sprintf("from %v to %v: %s", rounded(a.Begin), rounded(a.End), a.Err))
	}
	p.add("</table>\n")
}

// Counts returns how often a kind of fault was made and how often it hit, and why the last one that missed did not hit.
func (o *Report) Counts(kind Kind) (made, hit int, why string) {
	for _, f := range o.Faults {
		if f.Kind != kind {
			continue
		}
		made++
		if f.Hit {
			hit++
		} else {
			why = f.Why
		}
	}
	return made, hit, why
}

func (p *page) faults(o *Report) {
	p.head("Faults", "fault", "what", "made", "hit a client that held", "those that did not")
	for _, kind := range Kinds {
		made, hit, why := o.Counts(kind)
		p.row(string(kind), what[kind], made, hit, why)
	}
	p.add("</table>\n")
}

func (p *page) names(o *Report) {
	p.head("Names", "name", "holds", "wait, median", "wait, longest", "hand-over, median", "hand-over, longest", "tokens")
	for _, n := range o.Names {
		tokens := "none"
		if o.tokens {
			tokens = fmt.Sprintf("from %d to %d", n.First, n.Last)
		}
		p.row(n.Name, n.Holds, rounded(n.Waits.Quantile(0.5)), rounded(n.Waits.Most), rounded(n.HandOvers.Quantile(0.5)),
			rounded(n.HandOvers.Most), tokens)
	}
	p.add("</table>\n")
}

func (p *page) data(o *Report) {
	p.head("What late writes did", "file", "writes", "lost updates", "refused")
	p.row("without a guard", o.Control.Count, o.Control.Lost, "")
	if o.tokens {
		p.row("guarded by the token", o.Guarded.Count, o.Guarded.Lost, o.Refused)
	}
	p.add("</table>\n<p>A client that stands still between its read and its write writes late. A lock cannot keep it from " +
		"that; " +
		"a resource that refuses tokens of the past can.</p>\n")
}
