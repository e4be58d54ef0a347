package consul

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// consulLock runs Consul's own lock command. Its child process reports that the lock is held, and waits for a line.
func consulLock(t *testing.T, addr, name string, flags ...string) (held <-chan struct{}, release func()) {
	t.Helper()
	binary, err := filepath.Abs("../../bin/consul")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"lock", "-http-addr=http://" + addr, "-pass-stdin"}, flags...)
	cmd := exec.CommandContext(timely(t), binary, append(args, name, "echo held; read line")...)
	out := &gate{held: make(chan struct{})}
	cmd.Stdout = out
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		fmt.Fprintln(in)
		if err := cmd.Wait(); err != nil {
			t.Errorf("consul lock: %v: %s", err, trouble.String())
		}
	}
	t.Cleanup(release)
	return out.held, release
}

// A gate opens at the first output.
type gate struct {
	held chan struct{}
	open bool
}

func (g *gate) Write(p []byte) (int, error) {
	if !g.open {
		g.open = true
		close(g.held)
	}
	return len(p), nil
}

// consul lock NAME and stile exclude each other, whichever comes first.
func TestConsulLock(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d := open(t, "consul://"+s.Addr+"?prefix=")
	c := claimOn("jobs.nightly")
	holds(t, d, c)
	held, release := consulLock(t, s.Addr, c.Name)
	select {
	case <-held:
		t.Fatal("consul lock holds what stile holds")
	case <-time.After(300 * time.Millisecond):
	}
	leave(t, d, c)
	<-held

	next, try := claimOn(c.Name), claimOn(c.Name)
	try.Try = true
	if p := enter(t, d, try); p.Holds || p.Ahead != 1 {
		t.Errorf("a try = %+v; want one ahead", p)
	}
	p := enter(t, d, next)
	if p.Holds || p.Ahead != 1 || !p.Blocker.Holds {
		t.Errorf("enter = %+v; want to wait for consul lock", p)
	}
	if list, err := d.List(timely(t), &driver.Query{Name: c.Name}); err != nil || len(list) != 1 || list[0].Claims[0].Holds {
		t.Errorf("list = %+v, %v; want a claim that does not hold", list, err)
	}
	woken := make(chan error, 1)
	go func() {
		_, err := d.Await(timely(t), next)
		woken <- err
	}()
	release()
	if err := <-woken; err != nil {
		t.Fatalf("await = %v", err)
	}
	holds(t, d, next)
	leave(t, d, next)
	if left := (operator{t, "http://" + s.Addr}).under(c.Name + "/"); len(left) != 0 {
		t.Errorf("the store has %+v; want nothing", left)
	}
}

// stile reports a foreign key in place of its own, and does not change it.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	d := open(t, "consul://"+s.Addr)
	by.must(http.MethodPut, "kv/stile/other/.lock?flags=7", "do not touch")
	session := by.session("10s")
	by.must(http.MethodPut, "kv/stile/held/.lock?flags=7&acquire="+session, "do not touch")
	for _, name := range []string{"other", "held"} {
		for _, try := range []bool{false, true} {
			c := claimOn(name)
			c.Try = try
			_, err := d.Enter(timely(t), c)
			says(t, err, "stile/"+name+"/.lock")
			if !errors.Is(err, driver.ErrForeign) {
				t.Errorf("enter with try %v = %v; want ErrForeign", try, err)
			}
		}
		list := by.under("stile/" + name + "/")
		if len(list) != 1 || string(list[0].Value) != "do not touch" || list[0].Flags != 7 {
			t.Errorf("the store has %+v; want the foreign key as it was", list)
		}
	}

	held, release := consulLock(t, s.Addr, "stile/three", "-n", "3")
	<-held
	_, err := d.Enter(timely(t), claimOn("three"))
	says(t, err, "a semaphore of Consul's own (consul lock -n)")
	if !errors.Is(err, driver.ErrForeign) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
	release()
}

// Keys that are no claims do not count, and stay unchanged. A key that api.Lock left behind is a free lock.
func TestStrayKeys(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	d := open(t, "consul://"+s.Addr)
	session := by.session("10s")
	flags := fmt.Sprintf("flags=%d", claimFlags)
	by.must(http.MethodPut, "kv/stile/name/a?acquire="+session, "{}")
	by.must(http.MethodPut, "kv/stile/name/b?"+flags+"&acquire="+session, "not JSON")
	by.must(http.MethodPut, "kv/stile/name/c?"+flags+"&acquire="+session, `{"weight": 5, "capacity": 1}`)
	by.must(http.MethodPut, "kv/stile/name/deep/d?"+flags+"&acquire="+session, `{"weight": 1, "capacity": 1}`)
	by.must(http.MethodPut, fmt.Sprintf("kv/stile/name/.lock?flags=%d", lockFlags), "left by api.Lock")
	c := claimOn("name")
	holds(t, d, c)
	if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 1 || len(list[0].Claims) != 1 {
		t.Errorf("list = %+v, %v; want one claim", list, err)
	}
	leave(t, d, c)
	if left := by.under("stile/"); len(left) != 4 {
		t.Errorf("the store has %d keys; want the 4 that are no claims", len(left))
	}
}

// A name that is too long for a key is stored by its hash, and listed in full.
func TestLongNames(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	d := open(t, "consul://"+s.Addr)
	long := strings.Repeat("/", driver.MaxName)
	one, two := claimOn(long), claimOn(long[1:]+"é"[:0]+"x")
	holds(t, d, one)
	holds(t, d, two)
	for _, p := range by.under("stile/") {
		if len(p.Key) > maxText || !strings.HasPrefix(p.Key, "stile/"+hashed) {
			t.Errorf("key %q is %d bytes long", p.Key, len(p.Key))
		}
	}
	for prefix, want := range map[string]int{"": 2, "//": 2, long: 1, "a": 0} {
		list, err := d.List(timely(t), &driver.Query{Prefix: prefix})
		if err != nil || len(list) != want {
			t.Errorf("list of %d bytes = %d names, %v; want %d", len(prefix), len(list), err, want)
		}
	}
	waits(t, d, claimOn(long))
}
