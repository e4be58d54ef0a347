//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/history"
)

// A process is a worker and its reports.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	end chan struct{} // closed after its last report

	mu     sync.Mutex // guards what follows
	holds  map[int]*grant
	asks   map[int]*ask // of a worker that drives a peer
	errors []string
	died   time.Duration // when it was killed, or 0
}

// An ask is a wait of a worker that drives a peer, until it has the lock or gives up.
type ask struct {
	name       string
	begin, end time.Duration // the end is 0 while it waits
}

// start starts a worker.
func start(number int, b *brief) (*process, error) {
	cmd, err := program(b)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, end: make(chan struct{}), holds: map[int]*grant{}, asks: map[int]*ask{}}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(number, out)
	return p, nil
}

// program returns the command of a worker.
func program(b *brief) (*exec.Cmd, error) {
	if p := peers[b.peer]; p != nil && p.java {
		return javaWorker(b)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), b.environ()...)
	return cmd, nil
}

// listen records the worker's reports. A last line that its death cut off is dropped.
func (p *process) listen(number int, out io.Reader) {
	defer close(p.end)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		p.mu.Lock()
		p.heard(number, strings.TrimSuffix(line, "\n"))
		p.mu.Unlock()
	}
}

func (p *process) heard(number int, line string) {
	var (
		id        int
		at, until time.Duration
		end       fate
		g         = grant{Hold: history.Hold{Worker: number}}
	)
	if text, ok := strings.CutPrefix(line, "error "); ok {
		p.errors = append(p.errors, text)
	} else if n, _ := fmt.Sscanf(line, "begin %d %s %d %d %d %d %d", &id, &g.Name, &g.Weight, &g.Token, &g.call, &g.Begin, &g.until); n == 7 {
		g.End = g.Begin
		p.holds[id] = &g
		p.asked(id, g.Begin)
	} else if n, _ := fmt.Sscanf(line, "still %d %d %d", &id, &at, &until); n == 3 && p.holds[id] != nil {
		p.holds[id].still(at, until)
	} else if n, _ := fmt.Sscanf(line, "leave %d %d", &id, &at); n == 2 && p.holds[id] != nil {
		p.holds[id].leave(at)
	} else if n, _ := fmt.Sscanf(line, "over %d %d %d", &id, &end, &at); n == 3 && p.holds[id] != nil {
		p.holds[id].over(end, at)
	} else if n, _ := fmt.Sscanf(line, "ask %d %s %d", &id, &g.Name, &at); n == 3 {
		p.asks[id] = &ask{name: g.Name, begin: at}
	} else if n, _ := fmt.Sscanf(line, "quit %d %d", &id, &at); n == 2 {
		p.asked(id, at)
	}
}

// asked records the end of a wait, if it has not ended yet.
func (p *process) asked(id int, at time.Duration) {
	if a := p.asks[id]; a != nil && a.end == 0 {
		a.end = at
	}
}

// begun reports whether a worker that drives a peer has asked for a lock.
func (p *process) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asks) > 0
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // the worker may have ended by itself
	<-p.end
	_ = p.cmd.Wait() // killed
	p.died = boottime.Now()
}

// If the worker has ended by itself, stop and resume do nothing; others notice its end.
func (p *process) stop()   { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// leave makes the worker end by itself. If it does not, leave kills it and returns false.
func (p *process) leave(within time.Duration) bool {
	p.in.Close()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-p.end:
		return p.cmd.Wait() == nil
	case <-timeout.C:
		p.kill()
		return false
	}
}
