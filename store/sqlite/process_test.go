package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"github.com/stilelock/stile/internal/awake"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// The test binary starts itself with this variable set, as another process.
const childVariable = "STILE_SQLITE_TEST_CHILD"

// child is the main function of another process: STILE_SQLITE_TEST_CHILD=part, arguments: path of the lock file and more.
func child() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	part := os.Getenv(childVariable)
	if part == "occupy" {
		return occupy(ctx)
	}
	o := &Options{}
	switch part { // the tests that expect a refusal wait this long
	case "try":
		o.Busy = time.Second
	case "existing":
		o.Busy, o.Existing = time.Second, true
	case "tryName":
		o.Busy = brief.Busy
	}
	d, err := Open(ctx, os.Args[1], o)
	if err == nil {
		defer d.Close()
		err = map[string]func(context.Context, driver.Driver) error{
			"open":     func(context.Context, driver.Driver) error { return nil },
			"existing": func(context.Context, driver.Driver) error { return nil },
			"try":      func(ctx context.Context, d driver.Driver) error { return try(ctx, d, "x") },
			"tryY":     func(ctx context.Context, d driver.Driver) error { return try(ctx, d, "y") },
			"tryName":  tryName,
			"hold":     hold, "wait": wait, "count": count, "look": look,
		}[part](ctx, d)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func try(ctx context.Context, d driver.Driver, name string) error {
	c := claim(name, time.Minute)
	c.Try = true
	p, err := d.Enter(ctx, c)
	switch {
	case err != nil:
		return err
	case !p.Holds:
		fmt.Println("held")
		return nil
	}
	fmt.Println("free")
	return d.Leave(ctx, &driver.Release{Claim: c})
}

// tryName tries the name of the second argument, and prints its ticket.
func tryName(ctx context.Context, d driver.Driver) error {
	c := claim(os.Args[2], time.Minute)
	c.Try = true
	p, err := d.Enter(ctx, c)
	if err != nil || !p.Holds {
		return err
	}
	fmt.Println("free", p.Ticket)
	return d.Leave(ctx, &driver.Release{Claim: c})
}

// brief makes a refusal of a file come soon.
var brief = &Options{Busy: 300 * time.Millisecond}

// look prints whether another process has SQLite's shared lock on the file, which keeps others from removing its log.
func look(context.Context, driver.Driver) error {
	f, err := os.Open(os.Args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 1<<30 + 2, Len: 510} // SHARED_FIRST and SHARED_SIZE in SQLite
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return err
	}
	fmt.Println(map[bool]string{true: "free", false: "held"}[lock.Type == syscall.F_UNLCK])
	return nil
}

// occupy keeps the file open like a program that does not know stile, until its standard input ends.
func occupy(ctx context.Context) int {
	db, err := sql.Open("sqlite", os.Args[1])
	if err == nil {
		defer db.Close()
		_, err = db.ExecContext(ctx, "PRAGMA schema_version; SELECT * FROM sqlite_schema")
	}
	if err == nil {
		fmt.Println("occupied")
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hold takes the lock for the time of the argument, and keeps the process running until its standard input ends.
func hold(ctx context.Context, d driver.Driver) error {
	lease, err := time.ParseDuration(os.Args[2])
	if err != nil {
		return err
	}
	c := claim("x", lease)
	if p, err := d.Enter(ctx, c); err != nil || !p.Holds {
		return fmt.Errorf("enter = %+v, %w", p, err)
	}
	fmt.Println("holds")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return d.Leave(ctx, &driver.Release{Claim: c})
}

// wait waits for the lock, and prints the time when it holds.
func wait(ctx context.Context, d driver.Driver) error {
	c := claim("x", time.Minute)
	p, err := d.Enter(ctx, c)
	if err != nil || p.Holds {
		return fmt.Errorf("enter = %+v, %w", p, err)
	}
	fmt.Println("waits")
	err = turn(ctx, d, c)
	fmt.Println(time.Now().UnixMicro())
	return err
}

// count increments the number in a file many times, reading and writing it under the lock.
func count(ctx context.Context, d driver.Driver) error {
	rounds, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	for range rounds {
		c := claim("x", 30*time.Second)
		if err := turn(ctx, d, c); err != nil {
			return err
		}
		if err := addOne(os.Args[2]); err != nil {
			return err
		}
		if err := d.Leave(ctx, &driver.Release{Claim: c}); err != nil {
			return err
		}
	}
	return nil
}

func addOne(file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	n, _ := strconv.Atoi(string(text))
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// A process is a running child.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err strings.Builder
}

func start(t testing.TB, part string, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.CommandContext(t.Context(), os.Args[0], args...), part)
}

// startCommand starts a command that is, or becomes, a child.
func startCommand(t testing.TB, cmd *exec.Cmd, part string) *process {
	t.Helper()
	p := &process{Cmd: cmd}
	p.Env = append(os.Environ(), childVariable+"="+part)
	p.Stderr = &p.err
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// line returns the next line that the child prints, or "" at its end.
func (p *process) line() string {
	p.out.Scan()
	return p.out.Text()
}

func (p *process) waitExit(t testing.TB) {
	t.Helper()
	for p.out.Scan() {
	}
	if err := p.Wait(); err != nil {
		t.Errorf("child: %v: %s", err, p.err.String())
	}
}

// run returns the line that a child prints.
func run(t testing.TB, part string, args ...string) string {
	t.Helper()
	p := start(t, part, args...)
	line := p.line()
	p.waitExit(t)
	return line
}

func TestProcessesExclude(t *testing.T) {
	const processes, rounds = 6, 25
	path, file := lockFile(t), filepath.Join(t.TempDir(), "n")
	var all []*process
	for range processes {
		all = append(all, start(t, "count", path, file, strconv.Itoa(rounds)))
	}
	for _, p := range all {
		p.waitExit(t)
	}
	if text, err := os.ReadFile(file); string(text) != strconv.Itoa(processes*rounds) {
		t.Errorf("the number is %s, %v; want %d", text, err, processes*rounds)
	}
}

func TestProcessesMakeTheTablesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "locks.db")
	var all []*process
	for range 8 {
		all = append(all, start(t, "open", path))
	}
	for _, p := range all {
		p.waitExit(t)
	}
	var n int
	if err := raw(t, path).QueryRowContext(t.Context(), "SELECT count(*) FROM stile_meta").Scan(&n); err != nil || n != 1 {
		t.Errorf("the store has %d rows about itself, %v; want 1", n, err)
	}
}

func TestHolderKilled(t *testing.T) {
	const lease = 500 * time.Millisecond
	path := lockFile(t)
	d := open(t, path)
	p := start(t, "hold", path, lease.String())
	if got := p.line(); got != "holds" {
		t.Fatalf("the child says %q: %s", got, p.err.String())
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	list, err := d.(driver.Lister).List(t.Context(), &driver.Query{})
	if err != nil || len(list) > 0 && list[0].Claims[0].Remaining > lease {
		t.Errorf("list = %+v, %v; want at most %v left of the lease", list, err, lease)
	}
	next := claim("x", time.Hour) // its own renewal is not due for 20 minutes
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := turn(ctx, d, next); err != nil {
		t.Errorf("the lock of a killed process after its lease: %v; want to hold", err)
	}
}

func TestWaiterOfAnotherProcessWakes(t *testing.T) {
	lane := awake.Lane(t)
	path := lockFile(t)
	d := open(t, path)
	var slowest time.Duration
	for range 5 {
		held := claim("x", time.Minute)
		enter(t, d, held, true)
		p := start(t, "wait", path)
		if got := p.line(); got != "waits" {
			t.Fatalf("the child says %q: %s", got, p.err.String())
		}
		left := time.Now()
		leave(t, d, held)
		told, err := strconv.ParseInt(p.line(), 10, 64)
		if err != nil {
			t.Fatalf("the child: %v: %s", err, p.err.String())
		}
		p.waitExit(t)
		slowest = max(slowest, time.UnixMicro(told).Sub(left))
		if _, err := d.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: "x"}); err != nil {
			t.Fatalf("break: %v", err)
		}
	}
	t.Logf("the slowest of 5 was told after %v", slowest)
	lane.Within(slowest, 5*time.Second, "the waiter is told, before its own renewal would find out,")
}
