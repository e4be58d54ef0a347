package promstile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/stilelock/stile"
)

// series returns the names that queries may select by, each with its labels.
func series(t *testing.T) map[string][]string {
	t.Helper()
	c := New(nil)
	observe := c.Observer()
	for k := stile.EventAcquired; k <= stile.EventAsked; k++ {
		observe(stile.Event{Kind: k, Token: int64(k)})
	}
	all := map[string][]string{}
	for _, f := range gathered(t, c) {
		labels := []string{"job"} // of the scraped target
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if f.GetType() != dto.MetricType_HISTOGRAM {
			all[f.GetName()] = labels
			continue
		}
		all[f.GetName()+"_sum"], all[f.GetName()+"_count"] = labels, labels
		all[f.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
	}
	return all
}

// The tokens of PromQL in these queries: strings, ranges, numbers, names, and signs.
var token = regexp.MustCompile(`^(?:\s+|("[^"]*")|(\[[^\]]*\])|([0-9][0-9.]*)|([A-Za-z_:][A-Za-z0-9_:]*)|(=~|!~|!=|>=|<=|==|[(){},=<>+*/-]))`)

// functions are the functions that queries call, and operators the words among them.
var (
	functions = []string{"sum", "rate", "increase", "histogram_quantile"}
	ranges    = regexp.MustCompile(`^\[(\$__rate_interval|\$__range|\d+[mh])\]$`)
)

// A query has the parsed parts of a query: the metrics by name, and the labels by which it selects and sums.
type query struct {
	metrics, labels []string
	open            []string // the open brackets
	last            string
	by              int // the depth of a list of labels, or 0
}

// read parses a query. The error names a part that it does not understand.
func read(text string) (*query, error) {
	q := &query{}
	for rest := text; rest != ""; {
		m := token.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%s: not understood from %q on", text, rest)
		}
		rest = rest[len(m[0]):]
		if word := strings.TrimSpace(m[0]); word != "" {
			if err := q.take(word, m[4] != "", strings.TrimSpace(rest)); err != nil {
				return nil, fmt.Errorf("%s: %w", text, err)
			}
			q.last = word
		}
	}
	if len(q.open) > 0 {
		return nil, fmt.Errorf("%s: %q is not closed", text, q.open)
	}
	return q, nil
}

func (q *query) take(word string, name bool, rest string) error {
	in := ""
	if len(q.open) > 0 {
		in = q.open[len(q.open)-1]
	}
	switch closes := map[string]string{")": "(", "}": "{"}[word]; {
	case word == "(" || word == "{":
		q.open = append(q.open, word)
		if q.last == "by" {
			q.by = len(q.open)
		}
	case closes != "":
		if in != closes {
			return fmt.Errorf("%q closes nothing", word)
		}
		if q.by == len(q.open) {
			q.by = 0
		}
		q.open = q.open[:len(q.open)-1]
	case word[0] == '[':
		if !ranges.MatchString(word) {
			return fmt.Errorf("the range %s is none", word)
		}
	case !name || word == "by":
	case in == "{" || q.by > 0:
		q.labels = append(q.labels, word)
	case strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, "by "):
		if !slices.Contains(functions, word) {
			return fmt.Errorf("no function %s", word)
		}
	default:
		q.metrics = append(q.metrics, word)
	}
	return nil
}

// check returns the metrics in a query. The error names an unknown metric or label.
func check(text string, exported map[string][]string) (metrics []string, err error) {
	q, err := read(text)
	if err != nil {
		return nil, err
	}
	if len(q.metrics) == 0 {
		return nil, fmt.Errorf("%s: no metric", text)
	}
	for _, m := range q.metrics {
		labels, is := exported[m]
		if !is {
			return nil, fmt.Errorf("%s: %s is not exported", text, m)
		}
		for _, l := range q.labels {
			if !slices.Contains(labels, l) {
				return nil, fmt.Errorf("%s: %s has no label %s", text, m, l)
			}
		}
	}
	return q.metrics, nil
}

func TestCheck(t *testing.T) {
	exported := map[string][]string{"a_total": {"job", "class"}, "b_bucket": {"job", "le"}}
	for _, tt := range []struct{ query, want string }{
		{`sum by (job) (rate(a_total{class="x"}[5m])) > 0`, ""},
		{`histogram_quantile(0.99, sum by (le) (rate(b_bucket[$__rate_interval])))`, ""},
		{`sum(c_total)`, "c_total is not exported"},
		{`sum by (le) (a_total)`, "a_total has no label le"},
		{`sum(a_total{le="1"})`, "a_total has no label le"},
		{`sun(a_total)`, "no function sun"},
		{`sum((a_total)`, "is not closed"},
		{`sum(a_total})`, "closes nothing"},
		{`rate(a_total[5x])`, "the range [5x] is none"},
		{`sum(a_total) § 2`, "not understood"},
		{`1 > 0`, "no metric"},
	} {
		_, err := check(tt.query, exported)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.query, err, tt.want)
		}
	}
}

// A dashboard has the parts of dashboard.json that the test reads.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID                 int
		Title, Description string
		Datasource         struct{ Type, UID string }
		GridPos            struct{ X, Y, W, H int }
		Targets            []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

// The dashboard is JSON, its panels do not overlap, and its queries use exported metrics, all of them.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	exported, shown := series(t), map[string]bool{}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || ids[p.ID] || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d: no title, description or query, another's id, or a data source of its own: %+v", p.ID, p)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Fatalf("panels %q and %q: both stand at %v", taken[at], p.Title, at)
				}
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			metrics, err := check(target.Expr, exported)
			if err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
			for _, m := range metrics {
				shown[m] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if !shown[name] && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, v := range d.Templating.List[1:] {
		if want := "label_values(stile_lock_held, " + v.Name + ")"; v.Definition != want || !slices.Contains(exported["stile_lock_held"], v.Name) {
			t.Errorf("variable %s: %s, want %s", v.Name, v.Definition, want)
		}
	}
}

// A rules is alerts.yaml, without fields unknown to Prometheus.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr         string
			For                 string
			Labels, Annotations map[string]string
		}
	}
}

// The rules are decoded strictly, their expressions use exported metrics, their templates have values, and the page has a
// remedy for each.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var file rules
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&file); err != nil {
		t.Fatal(err)
	}
	exported, count := series(t), 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			count++
			if _, err := check(r.Expr, exported); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if d, err := time.ParseDuration("0" + r.For); err != nil || d < 0 {
				t.Errorf("%s: for: %v", r.Alert, err)
			}
			if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
			if !strings.Contains(string(page), "| `"+r.Alert+"` |") {
				t.Errorf("docs/reference/metrics.md has no row for %s", r.Alert)
			}
			for _, words := range r.Annotations {
				if err := expands(words, r.Expr); err != nil {
					t.Errorf("%s: %v", r.Alert, err)
				}
			}
		}
	}
	if count == 0 || strings.Count(string(page), "\n| `Stile") != count {
		t.Errorf("%d rules, and %d on the page", count, strings.Count(string(page), "\n| `Stile"))
	}
}

// expands fills in a template as Prometheus does, with the labels that an expression keeps.
func expands(words, expr string) error {
	q, err := read(expr)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	for _, l := range q.labels {
		labels[l] = "x"
	}
	tmpl, err := template.New("").Funcs(template.FuncMap{"humanizeDuration": fmt.Sprint}).Option("missingkey=error").
		Parse("{{$labels := .Labels}}{{$value := .Value}}" + words)
	if err != nil {
		return err
	}
	return tmpl.Execute(&bytes.Buffer{}, map[string]any{"Labels": labels, "Value": 1.5})
}
