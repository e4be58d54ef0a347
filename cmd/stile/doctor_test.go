package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/trial"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

func (u *account) examined(status int, args ...string) (v trial.ReportView) {
	u.t.Helper()
	r := u.run(append([]string{"doctor", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != status {
		u.t.Fatalf("doctor %q: status %d, want %d; %v: %s%s", args, r.code, status, err, r.out, r.err)
	}
	return v
}

// Each setting of a server that takes something away from its locks is named, with what to set.
func TestDoctorNamesSettings(t *testing.T) {
	t.Parallel()
	redis := func(args ...string) func(*testing.T) string {
		return func(t *testing.T) string { return "redis://" + servertest.Redis(t, args...).Addr }
	}
	memcached := func(args ...string) func(*testing.T) string {
		return func(t *testing.T) string { return "memcached://" + servertest.Memcached(t, args...).Addr }
	}
	for _, test := range []struct {
		name   string
		url    func(*testing.T) string
		status int
		better []string
	}{
		{"redis that keeps all", redis("--appendonly", "yes", "--appendfsync", "always"), 0, nil},
		{"redis that keeps nothing", redis("--appendonly", "no"), trial.Warnings, []string{"appendonly yes, appendfsync always"}},
		{"redis that keeps all but the last second", redis("--appendonly", "yes", "--appendfsync", "everysec"), trial.Warnings, []string{"appendfsync always"}},
		{
			"redis that evicts", redis("--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"),
			trial.Unfit, []string{"maxmemory-policy noeviction"},
		},
		{"memcached that evicts", memcached(), trial.Unfit, []string{"-M"}},
		{"memcached that refuses", memcached("-M"), 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := newAccount(t).at(test.url(t)).examined(test.status)
			better := []string(nil)
			for _, w := range v.Warnings {
				better = append(better, w.Better)
			}
			if !slices.Equal(better, test.better) {
				t.Errorf("%s: what is better is %q; want %q", test.name, better, test.better)
			}
			if v.Server == "" || v.Read.Count == 0 || v.Read.P99 < v.Read.P50 || v.Lock != nil || len(v.NotTried) != 2 {
				t.Errorf("%s: the report is %+v", test.name, v)
			}
		})
	}
}

// Behind the lock service a store is examined as it is, and each service that does not serve is named, though another one does.
func TestDoctorServed(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	u := newAccount(t).at("redis://" + s.Addr)
	tokens, file := filepath.Join(u.home, "tokens.json"), filepath.Join(u.home, "token")
	token := strings.TrimSpace(u.must("serve", "token", "new", "ci", "--allow", "lock,read", "--tokens", tokens))
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := servertest.Certificate(t)
	_, first := u.serve("--tokens", tokens, "--tls-cert", cert, "--tls-key", key)
	second, other := u.serve("--tokens", tokens, "--tls-cert", cert, "--tls-key", key)
	other = strings.TrimPrefix(other, "stiles://")
	client := newAccount(t).at(first + "," + other + "?tls_ca=" + cert + "&token_file=" + file)
	v := client.examined(0, "--probe")
	if len(v.Services) != 2 || !v.Services[0].Serves || !v.Services[1].Serves || v.Store != "redis" || v.Lock == nil {
		t.Errorf("the report is %+v; want two services of one Redis", v)
	}
	text := client.run("doctor").out
	if want := "service      " + other + ", by TLS, with a token\n"; !strings.Contains(text, want) || strings.Contains(text, token) {
		t.Errorf("doctor prints %s; want %q in it", text, want)
	}
	second.ends(syscall.SIGTERM)
	v = client.examined(trial.Warnings)
	if len(v.Services) != 2 || !v.Services[0].Serves || v.Services[1].Serves || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0].Text, other) {
		t.Errorf("the report is %+v; want one service, and a warning that names the other", v)
	}

	local := newAccount(t)
	_, url := local.serve()
	text = newAccount(t).at(url).run("doctor").out
	for _, want := range []string{
		"store        sqlite\n", "service      " + strings.TrimPrefix(url, "stile://") + ", by plain HTTP\n", "\nstore's note locks are for",
		"waiters      are told by the service, which asks again and again\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("doctor prints %s; want %q in it", text, want)
		}
	}
}

func TestDoctorProbes(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	u := newAccount(t).at("redis://" + s.Addr)
	v := u.examined(0, "--probe")
	if v.Lock == nil || v.Lock.Count == 0 || v.Drift == nil || v.Verdict != "fine" {
		t.Errorf("the report is %+v; want a lock that was timed, and the store's clock", v)
	}
	if left := u.must("ls"); !strings.Contains(left, "no names are in use") {
		t.Errorf("the probe left %s", left)
	}
	s.Redis([]string{"ACL", "SETUSER", "default", "-evalsha", "-eval"})
	if r := u.run("doctor", "--probe"); r.code != exit.BadUsage || !strings.Contains(r.err, "permission") && !strings.Contains(r.err, "right") {
		t.Errorf("without the right to write: status %d, %s", r.code, r.err)
	}
}

func TestDoctorRequires(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("lock", "backup") // makes the default store
	have := u.examined(0, "--require", "fencing,order,restart", "--require", "readers")
	if len(have.Lacking) != 0 || !slices.Contains(have.Traits, "restart") {
		t.Errorf("the report is %+v; want restart among the traits, and nothing lacking", have)
	}
	lacking := u.examined(trial.Unfit, "--require", "failover,fencing")
	if !slices.Equal(lacking.Lacking, []string{"failover"}) || lacking.Verdict != "unfit" {
		t.Errorf("the report is %+v; want failover lacking", lacking)
	}
	text := u.run("doctor", "--require", "failover")
	for _, want := range []string{"verdict      unfit\n", "store        sqlite\n", "LACKING      failover, which is required\n"} {
		if !strings.Contains(text.out, want) {
			t.Errorf("doctor prints %s; want %q in it", text.out, want)
		}
	}
}
