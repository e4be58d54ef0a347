//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A client is a client's process, as the matrix drives it.
type client interface {
	// lock asks for the lock and does not wait.
	lock(name string) error

	// try takes the lock if it is free. If the kind has no such call, the error is errCannot.
	try(name string) (bool, error)

	// held waits until the requested lock is held, and returns its token, or "-" if the kind has none. If it takes too
	// long, the error is errWaits.
	held(within time.Duration) (token string, err error)

	// unlock releases the lock and waits until that is done.
	unlock() error

	// pause stops the process, until resume, as SIGSTOP does.
	pause()
	resume()

	// kill ends the process as kill -9 does. Processes that it started may survive.
	kill()

	// close kills the process and the processes that it started.
	close()
}

var (
	errWaits  = errors.New("it still waits")
	errCannot = errors.New("this kind of client cannot try")
)

// patience bounds everything that nobody delays.
const patience = 30 * time.Second

// A process is a running program whose output is read.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // its lines of output; closed at its end
	log   *os.File
	once  sync.Once
}

// begin starts a process. Its standard error goes into a file of the folder, for the case that it fails.
func begin(dir string, args ...string) (*process, error) {
	log, err := os.CreateTemp(dir, filepath.Base(args[0])+"-*.log")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), lines: make(chan string, 64), log: log}
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p, nil
}

func (p *process) pause() { p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() { p.cmd.Process.Signal(syscall.SIGCONT) }

func (p *process) kill() {
	p.once.Do(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.log.Close()
	})
}

func (p *process) close() {
	p.kill()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // this fails if no process is left
}

// hear returns the next line.
func (p *process) hear(within time.Duration) (string, error) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok {
			text, _ := os.ReadFile(p.log.Name())
			return "", fmt.Errorf("the client has ended: %s", text[max(0, len(text)-1000):])
		}
		return line, nil
	case <-limit.C:
		return "", errWaits
	}
}
