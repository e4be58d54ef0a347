package prove

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/stilelock/stile/internal/history"
)

// A process is a worker, as the run sees it. The run's mutex guards the data that it has reported.
type process struct {
	run    *run
	slot   int // the worker's slot, which its replacements share
	number int // among all started processes
	cmd    *exec.Cmd
	in     io.WriteCloser
	end    chan struct{} // closed when its output has ended

	holds map[int]*held // its holds by their ids
	cuts  []int         // how many connections each cut ended
}

// A held is one hold of a process.
type held struct {
	history.Hold
	process *process
	waited  time.Duration
	freed   time.Duration // when the process was about to release it; 0 if it was not released
	over    bool          // released or lost
}

// start starts a worker. The calling thread must live as long as the worker.
func (r *run) start(slot int) (*process, error) {
	r.started++
	cmd, err := r.Worker(&Brief{r.Prefix, r.ttl, r.Seed*1000 + uint64(r.started), r.dir, r.report.tokens})
	if err != nil {
		return nil, err
	}
	p := &process{run: r, slot: slot, number: r.started, cmd: cmd, end: make(chan struct{}), holds: map[int]*held{}}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(out)
	return p, nil
}

// listen records the worker's lines. It leaves out a last line that its death cut off.
func (p *process) listen(out io.Reader) {
	defer close(p.end)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		p.run.mu.Lock()
		p.heard(strings.TrimSuffix(line, "\n"))
		close(p.run.news)
		p.run.news = make(chan struct{})
		p.run.mu.Unlock()
	}
}

// heard notes one line.
func (p *process) heard(line string) {
	word, rest, _ := strings.Cut(line, " ")
	var id int
	var at time.Duration
	switch word {
	case "begin":
		h := &held{process: p}
		h.Worker = p.slot
		if n, _ := fmt.Sscanf(rest, "%d %s %d %d %d %d", &id, &h.Name, &h.Weight, &h.Token, &h.Begin, &h.waited); n == 6 {
			h.End = h.Begin
			p.holds[id] = h
			p.run.holds = append(p.run.holds, h)
		}
	case "still", "free", "lost":
		n, _ := fmt.Sscanf(rest, "%d %d", &id, &at)
		h := p.holds[id]
		if n != 2 || h == nil {
			return
		}
		if word != "lost" {
			h.End = max(h.End, at)
		}
		if h.over = word != "still"; word == "free" {
			h.freed = at
		}
	case "refused":
		p.run.refused++
	case "cut":
		if n, _ := fmt.Sscanf(rest, "%d", &id); n == 1 {
			p.cuts = append(p.cuts, id)
		}
	case "error":
		p.run.errors = append(p.run.errors, fmt.Sprintf("worker %d: %s", p.slot+1, rest))
	}
}

func (p *process) stop()   { p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { p.cmd.Process.Signal(syscall.SIGCONT) }

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.end
	p.cmd.Wait()
}

// leave lets the worker end by itself. If the worker does not, leave kills it and reports false.
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
