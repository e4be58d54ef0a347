//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience bounds everything that nobody delays, on a busy machine.
const patience = 40 * time.Second

// A process is the program of one version, with a client of stile for each lock.
type process struct {
	who string
	cmd *exec.Cmd

	mu      sync.Mutex // guards the fields below
	in      io.Writer
	clients []*client
}

// A client has one lock, or waits for it. Its answers have the order of its orders.
type client struct {
	p       *process
	id      string
	answers chan answer
}

type answer struct{ verb, text string }

// begin starts a version. The end of the context kills the process.
func begin(ctx context.Context, v version) (*process, error) {
	p := &process{who: v.name, cmd: exec.CommandContext(ctx, v.program)}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			words := strings.SplitN(lines.Text(), " ", 3)
			i, _ := strconv.Atoi(words[1])
			p.mu.Lock()
			c := p.clients[i]
			p.mu.Unlock()
			c.answers <- answer{words[0], words[2]}
		}
	}()
	return p, nil
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // killed
}

// ask orders the process to take a lock with a client of its own.
func (p *process) ask(verb, kind string, ttl time.Duration, url, name string) (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &client{p, strconv.Itoa(len(p.clients)), make(chan answer, 4)}
	p.clients = append(p.clients, c)
	_, err := fmt.Fprintln(p.in, verb, c.id, kind, ttl, url, name)
	return c, err
}

// hear waits for an answer.
func (c *client) hear(within time.Duration) (a answer, ok bool) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case a = <-c.answers:
		return a, true
	case <-limit.C:
		return answer{}, false
	}
}

// holds waits until the lock is held, and returns its token.
func (c *client) holds(within time.Duration) (int64, error) {
	a, ok := c.hear(within)
	switch {
	case !ok:
		return 0, fmt.Errorf("%s still waits after %v", c.p.who, within)
	case a.verb != "held":
		return 0, fmt.Errorf("%s says %s %s; want held", c.p.who, a.verb, a.text)
	}
	return strconv.ParseInt(a.text, 10, 64)
}

// waits returns an error if the client gets the lock within a while.
func (c *client) waits(window time.Duration) error {
	if a, ok := c.hear(window); ok {
		return fmt.Errorf("%s says %s %s; want it to wait", c.p.who, a.verb, a.text)
	}
	return nil
}

// tell orders the process to do something with the client's lock.
func (c *client) tell(verb string) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	_, err := fmt.Fprintln(c.p.in, verb, c.id)
	return err
}

// late reports whether the client knows that it could not renew its lease in time.
func (c *client) late() bool {
	if c.tell("check") != nil {
		return false
	}
	for {
		a, ok := c.hear(patience)
		if !ok || a.verb == "checked" {
			return a.text == "late"
		}
	}
}

// free releases the lock, and waits for the end of the release.
func (c *client) free() error {
	if err := c.tell("free"); err != nil {
		return err
	}
	switch a, ok := c.hear(patience); {
	case !ok:
		return fmt.Errorf("%s does not give back", c.p.who)
	case a.verb != "freed":
		return fmt.Errorf("%s gives back: %s %s", c.p.who, a.verb, a.text)
	}
	return nil
}
