package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The documents say nothing that can be checked here and is not: the table of stores is what the stores say of
// themselves, Go compiles, command lines parse, the reference has every flag, status and key, and links lead somewhere.

var updateDocs = flag.Bool("update", false, "write the table of stores in README.md anew")

const readme = "../../README.md"

// documents returns the texts of README.md and docs/, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) < 3 {
		t.Fatalf("docs has %d documents, %v", len(paths), err)
	}
	texts := map[string]string{}
	for _, p := range append(paths, readme) {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts[p] = string(text)
	}
	return texts
}

// storeRows are the stores of the table, each set up as its row says.
var storeRows = []struct {
	name, url string
	open      func(t *testing.T) string
}{
	{"memory", "memory://", func(*testing.T) string { return "memory://" }},
	{"SQLite", "sqlite:///path/locks.db", func(t *testing.T) string { return "sqlite://" + t.TempDir() + "/locks.db" }},
	{"Redis, `appendfsync always`", "redis://host", func(t *testing.T) string {
		return "redis://" + servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").Addr
	}},
	{"Redis with Sentinel, the same", "redis+sentinel://h1,h2/primary", func(t *testing.T) string {
		s := servertest.RedisSentinel(t)
		s.Primary.Redis([]string{"CONFIG", "SET", "appendonly", "yes", "appendfsync", "always"})
		return "redis+sentinel://" + s.Sentinel.Addr + "/" + s.Name
	}},
	{"Redis Cluster, the same", "redis+cluster://h1,h2", func(t *testing.T) string {
		return "redis+cluster://" + servertest.RedisCluster(t, "--appendonly", "yes", "--appendfsync", "always")[0].Addr
	}},
	{"Redis, nothing on disk", "redis://host", func(t *testing.T) string { return "redis://" + servertest.Redis(t).Addr }},
	{"PostgreSQL", "postgres://host/database", func(t *testing.T) string {
		return "postgres://postgres@" + servertest.Postgres(t, "fsync = on").Addr + "/postgres"
	}},
	{"PostgreSQL with a synchronous standby", "postgres://h1,h2/database", func(t *testing.T) string {
		primary, _ := servertest.PostgresPair(t)
		return "postgres://postgres@" + primary.Addr + "/postgres"
	}},
	{"MySQL or MariaDB", "mysql://host/database", func(t *testing.T) string {
		return "mysql://root@" + servertest.MySQL(t, "innodb_flush_log_at_trx_commit=1").Addr + "/mysql"
	}},
	{"ZooKeeper, three servers", "zk://h1,h2,h3/chroot", func(t *testing.T) string {
		return "zk://" + servertest.ZooKeeperEnsemble(t, 3)[0].Addr
	}},
	{"etcd, three members", "etcd://h1,h2,h3", func(t *testing.T) string {
		return "etcd://" + servertest.EtcdCluster(t, 3)[0].Addr
	}},
	{"Consul, three servers", "consul://host", func(t *testing.T) string {
		return "consul://" + servertest.ConsulCluster(t, 3, map[string]any{"session_ttl_min": "10s"})[0].Addr
	}},
}

func TestStoreTable(t *testing.T) {
	t.Parallel()
	yes := map[bool]string{true: "yes", false: "no"}
	var b strings.Builder
	b.WriteString("| store | URL | waiters are told by | leases end by the clock of the | claims survive a restart / a failover | tokens rise | what it says of itself |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, row := range storeRows {
		d, err := driver.Open(t.Context(), row.open(t))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		traits := d.Traits()
		if !traits.Ordered || !traits.Shared || !traits.Permits {
			t.Errorf("README.md says that every store has order, readers and permits; %s has not", row.name)
		}
		var notes []string
		for _, n := range traits.Notes {
			notes = append(notes, strings.ToUpper(n[:1])+strings.TrimSuffix(n[1:], ".")+".")
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s / %s | %s | %s |\n", row.name, row.url, traits.Wake, traits.Clock,
			yes[traits.Restart], yes[traits.Failover], traits.Fencing, strings.Join(notes, " "))
	}
	text := documents(t)[readme]
	const begin, end = "<!-- stores: go test ./cmd/stile -run TestStoreTable -update -->\n", "<!-- end of stores -->\n"
	before, rest, ok1 := strings.Cut(text, begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has no place for the table of stores")
	}
	if *updateDocs {
		if err := os.WriteFile(readme, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := b.String(); got != want {
		t.Errorf("the table of stores in README.md is\n%swant\n%sgo test ./cmd/stile -run TestStoreTable -update writes it", got, want)
	}
}

// snippetFrame is what a block of Go without a package clause stands in.
const snippetFrame = `package snippets

import ("context"; "errors"; "log"; "log/slog"; "testing"; "testing/synctest"; "time"
"github.com/stilelock/stile"; "github.com/stilelock/stile/memory")

var (_ = errors.Is; _ = log.Print; _ = slog.Default; _ = synctest.Test; _ = time.Now; _ = memory.New; _ testing.TB)
`

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func TestGoInDocuments(t *testing.T) {
	dir := t.TempDir()
	fragments := snippetFrame
	var files []string
	for path, text := range documents(t) {
		for _, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
			code := fmt.Sprintf("//line %s:%d\n%s", strings.TrimPrefix(path, "../../"), 1+strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]])
			if strings.Contains(code, "\npackage ") {
				files = append(files, filepath.Join(dir, fmt.Sprintf("program%d.go", len(files))))
				if err := os.WriteFile(files[len(files)-1], []byte(code), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			fragments += "func _(ctx context.Context, locks *stile.Client, save func(ctx context.Context, token int64) error) error {\n" +
				code + "\nreturn nil\n}\n"
		}
	}
	if fragments == snippetFrame {
		t.Fatal("the documents have no Go")
	}
	all := filepath.Join(dir, "fragments.go")
	if err := os.WriteFile(all, []byte(fragments), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, all) {
		if out, err := exec.CommandContext(t.Context(), "go", "vet", "-unreachable=false", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	shellCall  = regexp.MustCompile(`(?m)(?:^|\$\()(?:[A-Z_]+=\S+ )*stile (.*?)(?:\)|$)`)
	shellRest  = regexp.MustCompile(` (#|\|\||\||>).*`)
	shellWord  = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// TestCommandLinesInDocuments has the command parse what the documents show.
func TestCommandLinesInDocuments(t *testing.T) {
	n := 0
	for path, text := range documents(t) {
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			if strings.Contains(block[1], `eval "$(`) {
				t.Errorf("%s: eval hides the status of what it evaluates, so a script would go on without the lock", path)
			}
			for _, call := range shellCall.FindAllStringSubmatch(block[1], -1) {
				n++
				line := shellRest.ReplaceAllString(call[1], "")
				if err := parses(shellWord.FindAllString(line, -1)); err != nil {
					t.Errorf("%s: stile %s: %v", path, line, err)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("the documents show %d command lines; want more", n)
	}
}

func parses(args []string) error {
	cmd, rest, err := reference().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.Parent() == nil {
		return fmt.Errorf("there is no command %q", args[0])
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// reference returns the command with what its library adds when it runs.
func reference() *cobra.Command {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// TestCommandReference finds what docs/command.md leaves out.
func TestCommandReference(t *testing.T) {
	text := documents(t)["../../docs/command.md"]
	sections := map[string]string{}
	for part := range strings.SplitSeq(text, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	for _, c := range reference().Commands() {
		for _, c := range append(c.Commands(), c) {
			if c.Hidden || c.HasParent() && c.Parent().Name() == "completion" || !c.Runnable() {
				continue
			}
			title := "`" + c.CommandPath() + "`"
			body := sections[title]
			if body == "" {
				body = sections[strings.TrimSuffix(title, " "+c.Name()+"`")+"`"]
			}
			if body == "" && !slices.Contains([]string{"help", "demo"}, c.Name()) {
				t.Errorf("there is no section %s", title)
			}
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && !strings.Contains(body, "`--"+f.Name+"`") && !strings.Contains(body, "`--"+f.Name+" ") {
					t.Errorf("section %s has no --%s", title, f.Name)
				}
			})
		}
	}
	for _, code := range []int{exitFailed, exitUsage, exitStore, exitHeld, exitLost, exitNotExecutable, exitNotFound} {
		if !strings.Contains(text, fmt.Sprintf("| %d |", code)) {
			t.Errorf("exit status %d is missing", code)
		}
	}
	for _, view := range []reflect.Type{reflect.TypeFor[queueView](), reflect.TypeFor[claimView](), reflect.TypeFor[leaderView]()} {
		for f := range view.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !strings.Contains(text, "| `"+key+"` |") {
				t.Errorf("JSON key %q is missing", key)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestLinksInDocuments(t *testing.T) {
	for path, text := range documents(t) {
		for _, to := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), to[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestNamedTests finds the tests that the documents name as behind a claim and that are not there.
func TestNamedTests(t *testing.T) {
	var tests strings.Builder
	for _, pattern := range []string{"../../*_test.go", "../../*/*_test.go", "../../*/*/*_test.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(text)
		}
	}
	for path, text := range documents(t) {
		for _, name := range regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(tests.String(), "\nfunc "+name[1]+"(") {
				t.Errorf("%s names %s, which does not exist", path, name[1])
			}
		}
	}
}
