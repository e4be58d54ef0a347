package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/python"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/remote"
)

// pythonBlock is a program on a page.
var pythonBlock = regexp.MustCompile("(?ms)^```python\n(.*?)^```$")

// A pythonHolder is a program in Python that holds a lock, takes commands and reports events: see
// clients/python/tests/worker.py.
type pythonHolder struct{ *process }

// A pythonEvent is one that it reports.
type pythonEvent struct {
	Event, Error, Text, Token, Handle string
	Held                              bool
}

// python starts a program of clients/python/tests.
func (u *account) python(program string, args ...string) *process {
	u.t.Helper()
	cmd, err := python.Command(context.Background(), append([]string{filepath.Join("tests", program)}, args...)...)
	if err != nil {
		u.t.Fatal(err)
	}
	return u.launch(cmd)
}

// pythonHolder starts a holder with keywords of Lock, as JSON.
func (u *account) pythonHolder(url, name, keywords string) pythonHolder {
	u.t.Helper()
	return pythonHolder{u.python("worker.py", url, name, keywords)}
}

// says reads the next event, which has to be of one of these kinds. A danger is passed over, unless it is wanted.
func (p pythonHolder) says(kinds ...string) (e pythonEvent) {
	p.t.Helper()
	for !slices.Contains(kinds, e.Event) {
		line := p.line()
		e = pythonEvent{}
		if err := json.Unmarshal([]byte(line), &e); err != nil || !slices.Contains(kinds, e.Event) && e.Event != "danger" {
			p.t.Fatalf("the event is %s, %v; want %q", line, err, kinds)
		}
	}
	return e
}

// does sends a command, and reads the next event.
func (p pythonHolder) does(command, kind string) pythonEvent {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.stdin, command); err != nil {
		p.t.Fatal(err)
	}
	return p.says(kind)
}

// releases ends the block with the lock.
func (p pythonHolder) releases() {
	p.t.Helper()
	p.stdin.Close()
	p.says("released")
	if code := p.wait(); code != 0 {
		p.t.Errorf("the program ends with %d: %s", code, p.stderr)
	}
}

// lost ends the block of a lock that was lost.
func (p pythonHolder) lost() {
	p.t.Helper()
	p.stdin.Close()
	if e := p.says("error"); e.Error != "LockLost" {
		p.t.Errorf("the block ends with %+v; want LockLost", e)
	}
}

// A lock of the Python client is the same lock as every other client's. Its holder hears of a break, and a process that it
// forks holds nothing.
func TestPython(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	_, at := u.serve()
	p := u.pythonHolder(at, "a", `{"owner": "ann", "ttl": 1}`)
	token := p.says("held").Token
	if claims := u.show("a").Claims; len(claims) != 1 || claims[0].Ticket != token || claims[0].Owner != "ann" || claims[0].Program != "worker.py" {
		t.Errorf("the queue is %+v; want ann's worker.py with token %s", claims, token)
	}
	if code := u.start("run", "a", "--wait", "0", "--", "true").wait(); code != 75 {
		t.Errorf("a second holder gets %d; want 75: the lock is held", code)
	}
	second := u.pythonHolder(at, "a", `{"wait": 0}`)
	if e := second.says("error"); e.Error != "LockHeld" {
		t.Errorf("a second holder in Python gets %+v; want LockHeld", e)
	}
	if e := p.does("fork", "error"); e.Error != "LockLost" || !strings.Contains(e.Text, "forked") {
		t.Errorf("the forked process gets %+v; want LockLost", e)
	}
	if e := p.does("check", "checked"); !e.Held {
		t.Error("the lock is not held after a fork")
	}
	waiter := u.pythonHolder(at, "a", "")
	until(t, "the other waits", func() bool { return len(u.show("a").Claims) == 2 })
	u.must("break", "a", "--reason", "test", "--yes")
	if e := p.says("lost"); e.Held {
		t.Error("a lock is held in the call of on_lost")
	}
	if later, err := strconv.ParseInt(waiter.says("held").Token, 10, 64); err != nil || token >= strconv.FormatInt(later, 10) {
		t.Errorf("the next token is %d, %v; want more than %s", later, err, token)
	}
	p.lost()
	waiter.releases()
	if n := len(u.show("a").Claims); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// A waiter of the Python client gives up its place, and a handle goes from one process to another.
func TestPythonHandles(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	_, at := u.serve()
	p := u.pythonHolder(at, "a", "")
	token := p.says("held").Token
	if e := u.pythonHolder(at, "a", `{"wait": 0.2}`).says("error"); e.Error != "LockHeld" || len(u.show("a").Claims) != 1 {
		t.Errorf("a waiter gets %+v, and leaves %+v; want LockHeld and no claim", e, u.show("a").Claims)
	}
	handle := p.does("detach", "detached").Handle
	next := u.pythonHolder(at, "a", `{"handle": "`+handle+`"}`)
	if got := next.says("held").Token; got != token {
		t.Errorf("the process that takes up the lock has token %s; want %s", got, token)
	}
	cmd := u.command("curl", "-sS", "-X", "DELETE", "-H", "Stile-Handle: "+handle, strings.Replace(at, "stile", "http", 1)+"/v1/locks/a")
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"released":true`) {
		t.Errorf("curl releases it: %s, %v", out, err)
	}
	next.lost()
	if e := u.pythonHolder(at, "a", `{"handle": "`+handle+`"}`).says("error"); e.Error != "LockLost" || strings.Contains(e.Text, handle) {
		t.Errorf("a process that comes too late gets %+v; want LockLost, without the handle", e)
	}
}

// A holder outlives its service, which is killed: it hears of the danger, and goes on with the next service.
func TestPythonOutlivesItsService(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	m, at := u.serve()
	way := servertest.NewProxy(t, strings.TrimPrefix(at, "stile://"))
	p := u.pythonHolder("stile://"+way.Addr, "a", `{"ttl": 24}`)
	token := p.says("held").Token
	m.signal(syscall.SIGKILL)
	m.wait()
	p.says("danger")
	_, at = u.serve()
	way.Retarget(strings.TrimPrefix(at, "stile://"))
	before := way.Asked()
	until(t, "the lock is renewed", func() bool { return way.Asked() > before })
	if e := p.does("check", "checked"); !e.Held || e.Token != token {
		t.Errorf("the holder has %+v; want token %s", e, token)
	}
	p.releases()
}

// A frozen service takes the lock away from the holder before anybody else gets it. With another one, the holder keeps it.
func TestPythonAtAFrozenService(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	frozen, at := u.serve()
	_, other := u.serve()
	holds := u.pythonHolder(at+","+strings.TrimPrefix(other, "stile://"), "a", `{"ttl": 24}`)
	loses := u.pythonHolder(at, "b", `{"ttl": 1}`)
	holds.says("held")
	loses.says("held")
	waiter := u.pythonHolder(other, "b", "")
	until(t, "the other waits", func() bool { return len(u.show("b").Claims) == 2 })
	frozen.signal(syscall.SIGSTOP)
	loses.says("danger")
	if e := loses.says("lost"); e.Held {
		t.Error("a lock is held in the call of on_lost")
	}
	waiter.says("held")
	loses.lost()
	holds.says("danger")
	if e := holds.does("check", "checked"); !e.Held {
		t.Error("the holder with two services lost its lock")
	}
	holds.releases()
	waiter.releases()
}

// A holder that was stopped, or whose machine slept, does not hold when it goes on; and that of a killed one lapses.
func TestPythonStandsStill(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	_, at := u.serve()
	stopped, slept, killed := u.pythonHolder(at, "a", `{"ttl": 1}`), u.pythonHolder(at, "b", ""), u.pythonHolder(at, "c", `{"ttl": 1}`)
	for _, p := range []pythonHolder{stopped, slept, killed} {
		p.says("held")
	}
	stopped.signal(syscall.SIGSTOP)
	killed.signal(syscall.SIGKILL)
	for _, name := range []string{"a", "c"} {
		next := u.pythonHolder(at, name, "")
		next.says("held")
		next.releases()
	}
	stopped.signal(syscall.SIGCONT)
	stopped.says("lost")
	stopped.lost()
	if _, err := fmt.Fprintln(slept.stdin, "suspend"); err != nil {
		t.Fatal(err)
	}
	for kinds := []string{"checked", "lost"}; len(kinds) > 0; { // in any order
		e := slept.says(kinds...)
		if e.Held {
			t.Errorf("the holder believes that it holds, an hour later: %+v", e)
		}
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == e.Event })
	}
	slept.lost()
}

// A request whose answer is lost is repeated, for one claim.
func TestPythonRepeats(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	_, at := u.serve()
	way := servertest.NewProxy(t, strings.TrimPrefix(at, "stile://"))
	way.Freeze(false, true)
	p := u.pythonHolder("stile://"+way.Addr, "a", `{"ttl": 12}`)
	until(t, "the lock is taken", func() bool { return len(u.show("a").Claims) == 1 })
	token := u.show("a").Claims[0].Ticket
	way.Drop()
	if got := p.says("held").Token; got != token {
		t.Errorf("the repeated request got token %s; want %s", got, token)
	}
	way.Freeze(false, true)
	p.stdin.Close()
	until(t, "the lock is free", func() bool { return len(u.show("a").Claims) == 0 })
	way.Mend()
	way.Drop()
	p.says("released")
}

// repeating is a proxy that sends each request to take or renew a lock twice, and answers every third request itself, before
// or after the service did.
func repeating(t *testing.T, at string) string {
	t.Helper()
	target, err := url.Parse(strings.Replace(at, "stile", "http", 1))
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := n.Add(1)
		page := func() {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>502 Bad Gateway</html>")
		}
		switch turn % 6 {
		case 0:
			page()
			return
		case 3:
			pass.ServeHTTP(httptest.NewRecorder(), r)
			page()
			return
		}
		if r.Method != http.MethodDelete {
			pass.ServeHTTP(httptest.NewRecorder(), r.Clone(r.Context()))
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http", "stile", 1)
}

// Programs in Go, Python and curl count in one file, and lose nothing: directly, by a proxy that repeats requests and loses
// answers, and while one of two services is killed.
func TestOneCounter(t *testing.T) {
	t.Parallel()
	const times = 20
	u := newAccount(t)
	first, at := u.serve()
	_, other := u.serve()
	both := at + "," + strings.TrimPrefix(other, "stile://")
	file := filepath.Join(u.home, "counter")
	if err := os.WriteFile(file, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	count := strconv.Itoa(times)
	programs := []*process{
		u.python("count.py", both, "n", file, count),
		u.python("count.py", repeating(t, other), "n", file, count),
	}
	folder, err := python.Folder()
	if err != nil {
		t.Fatal(err)
	}
	curl := u.command("bash", filepath.Join(folder, "tests", "count.sh"), "n", file, count)
	for server := range strings.SplitSeq(strings.TrimPrefix(both, "stile://"), ",") {
		curl.Args = append(curl.Args, "http://"+server)
	}
	programs = append(programs, u.launch(curl))
	client, err := stile.Open(t.Context(), both, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	number := func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range times {
		if i == times/2 {
			first.signal(syscall.SIGKILL)
		}
		err := client.Mutex("n").Do(t.Context(), func(context.Context) error {
			n := number()
			return os.WriteFile(file, []byte(strconv.Itoa(n+1)+"\n"), 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		if code := p.wait(); code != 0 {
			t.Errorf("%v = %d: %s", p.cmd.Args, code, p.stderr)
		}
	}
	if got, want := number(), (len(programs)+1)*times; got != want {
		t.Errorf("they counted to %d; want %d", got, want)
	}
}

// The Python client has its token from a file, which no error shows.
func TestPythonToken(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	tokens, file := filepath.Join(u.home, "tokens.json"), filepath.Join(u.home, "token")
	token := strings.TrimSpace(u.must("serve", "token", "new", "ci", "--allow", "lock:ci/", "--tokens", tokens))
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, at := u.serve("--tokens", tokens)
	p := u.pythonHolder(at+"?token_file="+file, "ci/a", `{"ttl": 2}`)
	p.says("held")
	for _, tt := range []struct{ url, name, code string }{
		{at, "ci/b", "no valid credentials"},
		{strings.Replace(at, "//", "//:"+token+"x@", 1), "ci/b", "no valid credentials"},
		{strings.Replace(at, "//", "//:"+token+"@", 1), "prod/b", "may not"},
	} {
		if e := u.pythonHolder(tt.url, tt.name, "").says("error"); e.Error != "LockRefused" || !strings.Contains(e.Text, tt.code) || strings.Contains(e.Text, token) {
			t.Errorf("%s gets %+v; want LockRefused: %s, without the token", tt.name, e, tt.code)
		}
	}
	list := u.must("serve", "token", "list", "--tokens", tokens)
	_, row, _ := strings.Cut(list, "\n")
	id, _, _ := strings.Cut(row, " ")
	u.must("serve", "token", "revoke", id, "--tokens", tokens)
	if e := p.says("danger"); e.Error != "LockRefused" {
		t.Errorf("after its token was revoked, the holder hears of %+v; want LockRefused", e)
	}
	p.says("lost")
	p.lost()
}

// The Python client asks by TLS, and trusts only the authority that it is given. What it sends to another server has no token.
func TestPythonTLS(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	tokens, file := filepath.Join(u.home, "tokens.json"), filepath.Join(u.home, "token")
	token := u.must("serve", "token", "new", "ci", "--allow", "lock", "--tokens", tokens)
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := servertest.Certificate(t)
	stranger, _ := servertest.Certificate(t)
	m, at := u.serve("--tokens", tokens, "--tls-cert", cert, "--tls-key", key)
	p := u.pythonHolder(at+"?tls_ca="+cert+"&token_file="+file, "a", `{"ttl": 1}`)
	if held := p.says("held"); u.show("a").Claims[0].Ticket != held.Token {
		t.Errorf("the holder has the token %s; the queue is %+v", held.Token, u.show("a").Claims)
	}
	for url, want := range map[string]string{
		at + "?tls_ca=" + stranger + "&token_file=" + file: "certificate verify failed",
		at + "?token_file=" + file:                         "certificate verify failed",
		strings.Replace(at, "stiles", "stile", 1):          "status 400",
	} {
		if e := u.pythonHolder(url, "b", `{"wait": 0.1}`).says("error"); !strings.Contains(e.Text, want) {
			t.Errorf("%s gets %+v; want %s", url, e, want)
		}
	}
	p.releases()
	m.ends(syscall.SIGTERM)
}

// The programs of the client's page run.
func TestPythonPage(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	_, at := u.serve()
	folder, err := python.Folder()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := pythonBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 3 {
		t.Fatalf("the page has %d programs", len(blocks))
	}
	for _, b := range blocks {
		cmd, err := python.Command(t.Context(), "-c", strings.ReplaceAll(b[1], "stile://127.0.0.1:7845", at))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, out, b[1])
		}
	}
}
