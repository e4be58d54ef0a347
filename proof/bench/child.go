//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"
)

// childEnv is the environment variable with a child's task.
const childEnv = "STILE_BENCH_CHILD"

// A task is the work of a child.
type task struct {
	Role      string // a key of roles
	Store     string // an arena's key
	Addr      string
	Contender string
	Java      bool // the contender is a library for Java
	TTL       time.Duration
	Name      string
	Size      int    // goroutines, or names
	First     uint64 // number of the first goroutine
	Field     string // the file with the field
	Warm      time.Duration
	Span      time.Duration
	Profile   string // the file for a CPU profile; "" means none
}

// roles are the functions that a child can run; each talks with its parent in lines.
var roles = map[string]func(*task, *lines) error{
	"contention": contentionRole, "waiter": waiterRole, "keeper": keeperRole, "queue": queueRole, "own": ownRole, "many": manyRole,
	"compute": computeRole, "clients": clientsRole, "passer": passerRole,
	"link": linkRole,
}

// lines is a conversation, one JSON value a line.
type lines struct {
	in  *json.Decoder
	out *json.Encoder
	end func() // ends a peer that was silent for patience; nil means that hear has no bound
}

// patience is how long a child may be silent. It is more than any task takes on a busy machine.
const patience = 3 * time.Minute

// errSilent is the error of a child that was ended for its silence: rueidislock waits forever for a free lock now and then
// if all processors are busy.
var errSilent = errors.New("it was silent for " + patience.String() + " and was ended")

func newLines(in io.Reader, out io.Writer) *lines {
	return &lines{in: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out)}
}

func (l *lines) say(v any) error { return l.out.Encode(v) }

func (l *lines) hear(into any) error {
	if l.end == nil {
		return l.in.Decode(into)
	}
	silent := time.AfterFunc(patience, l.end)
	err := l.in.Decode(into)
	if !silent.Stop() && err != nil {
		return errSilent
	}
	return err
}

// hearWord waits for a line, and returns an error unless it is this word.
func (l *lines) hearWord(want string) error {
	var got string
	if err := l.hear(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("heard %q, want %q", got, want)
	}
	return nil
}

// runChild does a child's task, if this process is one, and reports whether it is.
func runChild() bool {
	text := os.Getenv(childEnv)
	if text == "" {
		return false
	}
	go endWithParent(os.Getppid())
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = profiled(t.Profile, func() error { return roles[t.Role](&t, newLines(os.Stdin, os.Stdout)) })
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", t.Role, err)
		os.Exit(1)
	}
	return true
}

// endWithParent ends this process once its parent has ended.
func endWithParent(parent int) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	os.Exit(1)
}

// A child is this program in another process. It ends when its task is done, or when its parent ends.
type child struct {
	*lines
	cmd   *exec.Cmd
	stdin io.Closer
}

func startChild(t *task) (*child, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd, err := t.command()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := newLines(out, in)
	l.end = func() { cmd.Process.Kill() }
	return &child{l, cmd, in}, nil
}

// command returns the command for the task: this program, or one in Java.
func (t *task) command() (*exec.Cmd, error) {
	if t.Java {
		return javaCommand()
	}
	program, err := os.Executable()
	return exec.Command(program), err
}

// end waits until a child that is done has ended. It kills a child that is not done.
func (c *child) end(done bool) error {
	c.stdin.Close()
	if !done {
		c.cmd.Process.Kill()
	}
	return c.cmd.Wait()
}

// mapField maps the field in a file into memory, which other processes share.
func mapField(path string) (*field, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(field{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*field)(unsafe.Pointer(&memory[0])), nil
}

// open connects the task's library.
func (t *task) open() (library, error) {
	a, err := arenaOf(t.Store)
	if err != nil {
		return nil, err
	}
	return a.find(t.Contender).open(t.Addr, t.TTL)
}
