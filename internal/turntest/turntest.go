// Package turntest kills a process that works under a lock, and checks that another goes on and that no two ever work at
// once.
//
// The processes are copies of the test's own program, which has [Main] in its TestMain. A process that has the lock takes a
// turn, and calls work with its token. A turn goes through these states. Each is a line in a file that all processes append
// to, or a file that the test makes:
//
//	begun ──► let go by the test ──► over
//	  └─────► dead, since the test killed its process
package turntest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	variable = "STILE_TURNTEST"
	look     = 5 * time.Millisecond // the pause between two looks at a file
)

// Main runs a process of a test, or the tests. process gets the arguments of [Kill], and a function for the work under the
// lock. That function returns when the test ends the turn, and several goroutines may call it.
func Main(m *testing.M, process func(args []string, work func(token int64)) error) {
	path, args, ok := strings.Cut(os.Getenv(variable), "\n")
	if !ok {
		os.Exit(m.Run())
	}
	out, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		err = process(strings.Split(args, "\n"), func(token int64) { take(out, token) })
	}
	fmt.Fprintln(os.Stderr, "turntest: a process ended:", err)
	os.Exit(1)
}

// take writes a turn to the file, and waits until the test ends it.
func take(out *os.File, token int64) {
	turn := fmt.Sprintf("%d %d %d", os.Getpid(), token, time.Now().UnixNano())
	fmt.Fprintln(out, "begin", turn)
	for range time.Tick(look) {
		if _, err := os.Stat(permission(out.Name(), turn)); !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintln(out, "end", turn)
			return
		}
	}
}

// permission returns the file that ends a turn.
func permission(path, turn string) string { return path + "." + strings.ReplaceAll(turn, " ", ".") }

// Kill starts processes with some arguments, lets some turns pass, kills the process that has the turn, and checks that the
// others have turns after it. Tokens must rise from process to process, and must not fall within one.
func Kill(t *testing.T, processes int, args ...string) {
	t.Helper()
	path := t.TempDir() + "/turns"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	running := map[int]*exec.Cmd{}
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), variable+"="+path+"\n"+strings.Join(args, "\n"))
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		running[cmd.Process.Pid] = cmd
	}
	w := &watch{path: path}
	for range 2 {
		w.endTurn(t, w.next(t))
	}
	victim := w.next(t)
	running[victim.pid].Process.Kill()
	running[victim.pid].Wait()
	w.works = nil
	for range 3 {
		next := w.next(t)
		if next.pid == victim.pid {
			t.Fatalf("process %d works after its death", next.pid)
		}
		w.endTurn(t, next)
	}
}

// A turn is one line of the file.
type turn struct {
	pid      int
	token    int64
	id, text string // id is the line's key for begin and end
}

// A watch reads the lines of all processes, in the order of writing.
type watch struct {
	path  string
	read  int   // bytes
	works *turn // the turn under way
	last  turn
}

// next waits for the begin of a turn. The processes may be idle for as long as a lease lasts.
func (w *watch) next(t *testing.T) turn {
	t.Helper()
	begun := w.line(t)
	if begun.id != "begin" || w.works != nil {
		t.Fatalf("%s of process %d while process %v works", begun.id, begun.pid, w.works)
	}
	if begun.token < w.last.token || begun.pid != w.last.pid && begun.token == w.last.token || begun.token <= 0 {
		t.Errorf("process %d has token %d after %d of process %d", begun.pid, begun.token, w.last.token, w.last.pid)
	}
	w.works, w.last = &begun, begun
	return begun
}

// endTurn lets a turn end, and waits until it has.
func (w *watch) endTurn(t *testing.T, of turn) {
	t.Helper()
	if err := os.WriteFile(permission(w.path, of.text), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if over := w.line(t); over.id != "end" || over.text != of.text {
		t.Fatalf("%s of process %d while process %d works", over.id, over.pid, of.pid)
	}
	w.works = nil
}

// line waits for the next line.
func (w *watch) line(t *testing.T) (l turn) {
	t.Helper()
	tick := time.Tick(look)
	for deadline := time.Now().Add(time.Minute); ; <-tick {
		all, err := os.ReadFile(w.path)
		if err != nil {
			t.Fatal(err)
		}
		text, _, whole := strings.Cut(string(all[w.read:]), "\n")
		if whole {
			w.read += len(text) + 1
			if _, err := fmt.Sscan(text, &l.id, &l.pid, &l.token); err != nil {
				t.Fatalf("a process wrote %q", text)
			}
			l.text = strings.TrimPrefix(text, l.id+" ")
			return l
		}
		if time.Now().After(deadline) {
			t.Fatal("no process has begun or ended a turn for a minute")
		}
	}
}
