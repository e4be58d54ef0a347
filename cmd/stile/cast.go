package main

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

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/exit"
	"github.com/stilelock/stile/cmd/stile/internal/proc"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/jobs"
)

// A cast is the processes of a demo. Each is this program with a hidden command. It is told what to do by lines on its stdin,
// and reports by notices on its stdout. So a fault hits a process where it waits to be told, whatever the machine's speed is.
type cast struct {
	url    string   // of the store
	env    []string // what else stands in the environment of the actors
	heard  chan heard
	actors []*actor
}

// An actor is a process of a demo, as the demo sees it.
type actor struct {
	role   string // what the reader of an error knows it as
	number int    // from 1 on, in its role
	cmd    *exec.Cmd
	in     io.WriteCloser
	dead   bool // killed, so that what it said before counts no more
	ended  bool // its stdout is closed
}

// A notice is a line that an actor writes to its stdout.
type notice struct {
	What    string       `json:"what"`
	Order   int          `json:"order,omitempty"`
	Lost    bool         `json:"lost,omitempty"` // the lease was lost meanwhile
	Tick    time.Time    `json:"tick,omitzero"`
	Outcome jobs.Outcome `json:"outcome,omitempty"`
	Token   int64        `json:"token,omitempty"`
	Looks   int          `json:"looks,omitempty"`
	Torn    int          `json:"torn,omitempty"` // looks that saw a half-made sale
	Code    int          `json:"code,omitempty"` // the exit status, of a failure
	Text    string       `json:"text,omitempty"`
}

// dataVariable has the URL of a demo's data, for its processes: others can read a command line.
const dataVariable = "STILE_DEMO_DATA"

// mostNotice is how long a notice may be.
const mostNotice = 1 << 20

// What every actor reports.
const (
	didBegin = "ready"
	didFail  = "failed"
	didEnd   = "ended" // it closed its stdout
)

// What actors of several demos report.
const (
	didAsk  = "write"   // it has read, and is about to write
	didHalt = "refused" // the guard refused the write
	didLose = "again"   // the lease was lost before the write
)

func (n *notice) send() error { return json.NewEncoder(os.Stdout).Encode(n) }

// A heard is a notice and who sent it.
type heard struct {
	notice
	from *actor
}

// newActor is the hidden command of an actor. Its failure is a notice: whoever started the process says it, once for all.
func newActor(name string, count int, play func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, Args: cobra.ExactArgs(count),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := play(cmd.Context(), args)
			if err == nil {
				return nil
			}
			code, hint := exit.Classify(err)
			if known, ok := errors.AsType[*exit.Status](err); ok {
				code = known.Code
			}
			_ = (&notice{What: didFail, Code: code, Text: speech.OneLine(err.Error() + hint)}).send()
			return exit.With(code, nil)
		},
	}
}

func newCast(url string) *cast { return &cast{url: url, heard: make(chan heard)} }

// hire starts an actor.
func (c *cast) hire(ctx context.Context, role string, args ...string) (*actor, error) {
	a := &actor{role: role, number: 1, cmd: exec.CommandContext(ctx, proc.Self(), append([]string{"demo"}, args...)...)}
	for _, other := range c.actors {
		if other.role == role {
			a.number++
		}
	}
	a.cmd.Args[0] = os.Args[0]
	a.cmd.Env = slices.Concat(os.Environ(), []string{store.URLVariable + "=" + c.url}, c.env)
	a.cmd.Stderr, a.cmd.SysProcAttr = os.Stderr, proc.OfParent()
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	c.actors = append(c.actors, a)
	go c.listen(ctx, a, out)
	return a, nil
}

func (c *cast) listen(ctx context.Context, a *actor, out io.Reader) {
	in := bufio.NewScanner(out)
	for in.Buffer(nil, mostNotice); ; {
		h := heard{from: a}
		if !in.Scan() {
			h.What = didEnd
		} else if err := json.Unmarshal(in.Bytes(), &h.notice); err != nil {
			h.What, h.Text, h.Code = didFail, err.Error(), exit.Failed
		}
		select {
		case c.heard <- h:
		case <-ctx.Done():
			return
		}
		if h.What == didEnd {
			return
		}
	}
}

// next returns the next notice.
func (c *cast) next(ctx context.Context) (heard, error) {
	select {
	case h := <-c.heard:
		h.from.ended = h.from.ended || h.What == didEnd
		return h, nil
	case <-ctx.Done():
		return heard{}, context.Cause(ctx)
	}
}

// gather returns when all actors are ready.
func (c *cast) gather(ctx context.Context) error {
	for range c.actors {
		h, err := c.next(ctx)
		if err != nil {
			return err
		} else if h.What != didBegin {
			return h.failure()
		}
	}
	return nil
}

// close has the actors end, and waits until they have, but not for long.
func (c *cast) close(ctx context.Context, cancel context.CancelFunc) {
	late := time.AfterFunc(2*time.Second, cancel) // kills those that still run, also one that is stopped
	defer late.Stop()
	for _, a := range c.actors {
		_ = a.in.Close() // which fails if the actor has ended
	}
	for slices.ContainsFunc(c.actors, func(a *actor) bool { return !a.ended }) {
		if _, err := c.next(ctx); err != nil {
			break
		}
	}
	cancel()
	for _, a := range c.actors {
		_ = a.cmd.Wait() // it was killed, or its reports have ended
	}
}

func (a *actor) tell(line string) error {
	if _, err := io.WriteString(a.in, line+"\n"); err != nil && !errors.Is(err, syscall.EPIPE) { // its end is heard of
		return err
	}
	return nil
}

// kill ends an actor, whose earlier notices count no more.
func (a *actor) kill() error {
	a.dead = true
	return a.cmd.Process.Signal(syscall.SIGKILL)
}

// failure is the error of an actor that failed, or ended too early.
func (h *heard) failure() error {
	if h.What == didFail {
		return exit.With(h.Code, fmt.Errorf("%s %d: %s", h.from.role, h.from.number, h.Text))
	}
	return wrong("%s %d has ended too early (%s)", h.from.role, h.from.number, h.What)
}
