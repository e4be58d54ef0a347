//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// program is one outside of the repository. It has every store linked in, opens the one that needs no server, and takes a
// lock.
const program = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stilelock/stile"
%s)

func main() {
	ctx := context.Background()
	client, err := stile.Open(ctx, "sqlite://"+os.Args[1], nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("order 7").Do(ctx, func(ctx context.Context) error {
		fmt.Println("locked order 7")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
`

// prove uses the tags of the clone as a stranger would. The adapters are only downloaded: they have no schemes, and what
// they require is much.
func prove(clone, tmp string, modules []module, version string, out io.Writer) error {
	env, err := served(clone, tmp, modules, version)
	if err != nil {
		return err
	}
	outside := filepath.Join(tmp, "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		return err
	}
	before, drop, get, imports := []string{"mod", "edit"}, []string{"mod", "edit"}, []string{"get"}, ""
	for _, m := range modules {
		if m.adapter {
			continue
		}
		if m.dir != "cmd/stile" {
			before = append(before, "-replace="+m.Path+"="+filepath.Join(clone, m.dir))
			drop = append(drop, "-dropreplace="+m.Path)
			get = append(get, m.Path+"@"+version)
		}
		if m.dir != "" && m.dir != "cmd/stile" {
			imports += fmt.Sprintf("\t_ %q\n", m.Path)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "main.go"), fmt.Appendf(nil, program, imports), 0o600); err != nil {
		return err
	}
	for _, step := range [][]string{
		// A program that had the modules of a clone goes on with the tags' modules.
		{"mod", "init", "example.com/outside"}, before, {"get", "."}, drop,
		get, {"mod", "tidy"}, {"build", "-trimpath", "-o", "outside", "."},
	} {
		if _, err := run(outside, env, "go", step...); err != nil {
			return err
		}
	}
	if err := prints(outside, env, "locked order 7\n", "./outside", filepath.Join(tmp, "locks.db")); err != nil {
		return err
	}
	fmt.Fprintln(out, "a program outside: got, built, and it has locked")
	bin := filepath.Join(tmp, "bin")
	if _, err := run(outside, append(env, "GOBIN="+bin), "go", "install", "-trimpath", root+"/cmd/stile@"+version); err != nil {
		return err
	}
	if err := prints(outside, env, "stile "+version+" ", filepath.Join(bin, "stile"), "version"); err != nil {
		return err
	}
	fmt.Fprintf(out, "go install: a command that tells %s\n", version)
	return nil
}

// served returns the environment in which Go finds the modules at the tags of the clone, in a proxy that is a folder, and
// what they require where it finds that today.
func served(clone, tmp string, modules []module, version string) ([]string, error) {
	vars, err := run(clone, nil, "go", "env", "GOPROXY", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	today, cache, _ := strings.Cut(strings.TrimSpace(string(vars)), "\n")
	env := []string{"GOWORK=off", "GOFLAGS=", "GOSUMDB=off", "GOPRIVATE=", "HOME=" + tmp, "XDG_STATE_HOME=" + tmp, "STILE_URL="}
	if os.Getenv("GOCACHE") == "" { // HOME no longer leads there
		built, err := run(clone, nil, "go", "env", "GOCACHE")
		if err != nil {
			return nil, err
		}
		env = append(env, "GOCACHE="+strings.TrimSpace(string(built)))
	}
	// What Go downloads from the repository itself it keeps in the form in which a proxy has it.
	proxy := filepath.Join(tmp, "proxy")
	direct := append([]string{"GOMODCACHE=" + proxy, "GOPROXY=direct", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + clone + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root}, env...)
	download := []string{"mod", "download"}
	for _, m := range modules {
		download = append(download, m.Path+"@"+version)
	}
	if _, err := run(tmp, direct, "go", download...); err != nil {
		return nil, err
	}
	proxies := []string{"file://" + filepath.Join(proxy, "cache/download"), "file://" + filepath.Join(cache, "cache/download"),
		today}
	return append(env, "GOMODCACHE="+filepath.Join(tmp, "modules"), "GOPROXY="+strings.Join(proxies, ",")), nil
}

// prints runs a command and wants what it prints to begin so.
func prints(dir string, env []string, want, name string, args ...string) error {
	got, err := run(dir, env, name, args...)
	if err == nil && !strings.HasPrefix(string(got), want) {
		return fmt.Errorf("%s printed %q; want %q", filepath.Base(name), got, want)
	}
	return err
}
