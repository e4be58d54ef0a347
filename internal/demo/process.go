//go:build unix

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/stilelock/stile/internal/child"
	"github.com/stilelock/stile/internal/exit"
)

// Processes are the processes of a demo. Each runs this program with other arguments, reads orders as lines from its stdin,
// and writes notices to its stdout. So a fault hits a process while it waits for an order, at any speed of the machine.
type Processes struct {
	url   string   // of the store
	Env   []string // further environment variables of the processes
	Heard chan Heard
	All   []*Process
}

// A Process is one process of a demo.
type Process struct {
	Role   string // its name in errors
	Number int    // within its role, from 1 on
	Cmd    *exec.Cmd
	in     io.WriteCloser
	Dead   bool // killed, so that its earlier notices no longer count
	Ended  bool // it has closed its stdout
}

// A Notice is a line that a process writes to its stdout.
type Notice struct {
	What    string    `json:"what"`
	Order   int       `json:"order,omitempty"`
	Lost    bool      `json:"lost,omitempty"` // the process lost its lease meanwhile
	Tick    time.Time `json:"tick,omitzero"`
	Outcome string    `json:"outcome,omitempty"` // of a run, in the words of package jobs
	Token   int64     `json:"token,omitempty"`
	Looks   int       `json:"looks,omitempty"`
	Torn    int       `json:"torn,omitempty"` // looks at a half-made sale
	Code    int       `json:"code,omitempty"` // the exit status, of a failure
	Text    string    `json:"text,omitempty"`
}

// DataVariable is the environment variable with the URL of a demo's data, for its processes. Other users can read a command
// line, but not the environment.
const DataVariable = "STILE_DEMO_DATA"

// URLVariable is the environment variable with the URL of the store, for people and for the processes of a demo.
const URLVariable = "STILE_URL"

// mostNotice bounds a notice in bytes.
const mostNotice = 1 << 20

// The reports of every process.
const (
	DidBegin = "ready"
	DidFail  = "failed"
	DidEnd   = "ended" // it closed its stdout
)

// The reports of processes of several demos.
const (
	DidAsk  = "write"   // it has read, and writes next
	DidHalt = "refused" // the guard refused the write
	DidLose = "again"   // the lease was lost before the write
)

// A Heard is a notice and its sender.
type Heard struct {
	Notice
	From *Process
}

// NewProcesses returns an empty set of processes. Start gives them the URL of the store.
func NewProcesses(url string) *Processes { return &Processes{url: url, Heard: make(chan Heard)} }

// Start starts this program as a process of a role. args begin with the role's name; ctx kills the process.
func (c *Processes) Start(ctx context.Context, role string, args ...string) (*Process, error) {
	a := &Process{Role: role, Number: 1, Cmd: exec.CommandContext(ctx, child.Self(), args...)}
	for _, other := range c.All {
		if other.Role == role {
			a.Number++
		}
	}
	a.Cmd.Args[0] = os.Args[0]
	a.Cmd.Env = slices.Concat(os.Environ(), []string{URLVariable + "=" + c.url}, c.Env)
	a.Cmd.Stderr, a.Cmd.SysProcAttr = os.Stderr, child.OfParent()
	out, err := a.Cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.in, err = a.Cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.Cmd.Start(); err != nil {
		return nil, err
	}
	c.All = append(c.All, a)
	go c.listen(ctx, a, out)
	return a, nil
}

func (c *Processes) listen(ctx context.Context, a *Process, out io.Reader) {
	in := bufio.NewScanner(out)
	for in.Buffer(nil, mostNotice); ; {
		h := Heard{From: a}
		if !in.Scan() {
			h.What = DidEnd
		} else if err := json.Unmarshal(in.Bytes(), &h.Notice); err != nil {
			h.What, h.Text, h.Code = DidFail, err.Error(), exit.Failed
		}
		select {
		case c.Heard <- h:
		case <-ctx.Done():
			return
		}
		if h.What == DidEnd {
			return
		}
	}
}

// Next returns the next notice.
func (c *Processes) Next(ctx context.Context) (Heard, error) {
	select {
	case h := <-c.Heard:
		h.From.Ended = h.From.Ended || h.What == DidEnd
		return h, nil
	case <-ctx.Done():
		return Heard{}, context.Cause(ctx)
	}
}

// Gather waits until all processes are ready.
func (c *Processes) Gather(ctx context.Context) error {
	for range c.All {
		h, err := c.Next(ctx)
		if err != nil {
			return err
		} else if h.What != DidBegin {
			return h.Failure()
		}
	}
	return nil
}

// Close ends all processes and waits for them. After two seconds it kills them by cancel, the cancel function of their
// context.
func (c *Processes) Close(ctx context.Context, cancel context.CancelFunc) {
	late := time.AfterFunc(2*time.Second, cancel) // kills the processes that still run or are stopped
	defer late.Stop()
	for _, a := range c.All {
		_ = a.in.Close() // this fails if the process has ended
	}
	for slices.ContainsFunc(c.All, func(a *Process) bool { return !a.Ended }) {
		if _, err := c.Next(ctx); err != nil {
			break
		}
	}
	cancel()
	for _, a := range c.All {
		_ = a.Cmd.Wait() // the process was killed, or has closed its stdout
	}
}

// Tell writes a line to the process's stdin.
func (a *Process) Tell(line string) error {
	// Next reports the end of the process.
	if _, err := io.WriteString(a.in, line+"\n"); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return nil
}

// Kill kills the process. The notices that it has sent no longer count.
func (a *Process) Kill() error {
	a.Dead = true
	return a.Cmd.Process.Signal(syscall.SIGKILL)
}

// Failure returns the error of a process that failed or ended too early.
func (h *Heard) Failure() error {
	if h.What == DidFail {
		return exit.With(h.Code, fmt.Errorf("%s %d: %s", h.From.Role, h.From.Number, h.Text))
	}
	return Wrong("%s %d has ended too early (%s)", h.From.Role, h.From.Number, h.What)
}
