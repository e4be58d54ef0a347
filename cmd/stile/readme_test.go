package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The documents say nothing that can be checked here and is not: the table of stores is the stores' own, Go compiles,
// command lines parse, and the reference has every flag, status and key.

const (
	readme        = "../../README.md"
	readmeChinese = "../../README.zh-CN.md"
)

// documents returns the texts of README.md and docs/, by path. A Chinese page is left out: a test of internal/repo
// checks that its code equals the English page's, to the byte.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(paths) < 3 {
		t.Fatalf("docs has %d documents, %v", len(paths), err)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, ".zh-CN.md") })
	texts := map[string]string{}
	for _, p := range append(paths, readme, "../../docs/README.md") {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts[p] = string(text)
	}
	return texts
}

// snippetFrame surrounds a block of Go without a package clause.
const snippetFrame = `package snippets

import ("context"; "errors"; "log"; "log/slog"; "testing"; "net/http"; "testing/synctest"; "time"
"github.com/redis/go-redis/v9"; "github.com/stilelock/stile"; "github.com/stilelock/stile/jobs"; "github.com/stilelock/stile/store/memory"
"github.com/stilelock/stile/store/redis/goredis"; "github.com/stilelock/stile/stilehttp")

var rdb *redis.Client // a program's own

var (_ = goredis.Open; _ = jobs.New; _ = errors.Is; _ = http.Get; _ = stilehttp.Limit; _ = log.Print; _ = slog.Default; _ = synctest.Test; _ = time.Now; _ = memory.New; _ testing.TB)
`

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func TestGoInDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fragments := snippetFrame
	var files []string
	for path, text := range documents(t) {
		if strings.HasSuffix(path, "/howto/adapters.md") || strings.HasSuffix(path, "/reference/metrics.md") {
			continue // the command has not the libraries; the adapters' own tests compile it
		}
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

// TestCommandLinesInDocuments parses the command lines of the documents by the command.
func TestCommandLinesInDocuments(t *testing.T) {
	n := 0
	for path, text := range documents(t) {
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			if strings.Contains(strings.ReplaceAll(block[1], `eval "$(stile completion `, ""), `eval "$(`) {
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

var (
	fileBlock = regexp.MustCompile("(?ms)^ *```(?:crontab|ini|yaml|dockerfile)\n(.*?)^ *```$")
	fileCall  = regexp.MustCompile(`(?m)[ /]stile ((?:run|elect|lock|renew|unlock|wait|watch) .*)$`)
	listCall  = regexp.MustCompile(`(?m)\["/?stile", (.*)\]$`)
)

// TestCommandLinesInFiles has the command parse what crontabs, units and manifests in the documents have it run.
func TestCommandLinesInFiles(t *testing.T) {
	n := 0
	for path, text := range documents(t) {
		for _, block := range fileBlock.FindAllStringSubmatch(text, -1) {
			var calls [][]string
			for _, call := range fileCall.FindAllStringSubmatch(block[1], -1) {
				calls = append(calls, shellWord.FindAllString(call[1], -1))
			}
			for _, call := range listCall.FindAllStringSubmatch(block[1], -1) {
				var args []string
				if err := json.Unmarshal([]byte("["+call[1]+"]"), &args); err != nil {
					t.Errorf("%s: %s: %v", path, call[0], err)
				}
				calls = append(calls, args)
			}
			for _, args := range calls {
				n++
				if err := parses(args); err != nil {
					t.Errorf("%s: stile %q: %v", path, args, err)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("the documents show %d files that run stile; want more", n)
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
