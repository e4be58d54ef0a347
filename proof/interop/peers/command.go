//go:build unix

package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// A command is a client that is a program of its own: it runs while it waits and holds, prints a line when it holds, and
// releases the lock when it gets a signal.
type command struct {
	dir  string
	args func(name string) []string
	name string // the lock's name
	run  *process
}

func (c *command) lock(name string) error {
	var err error
	c.name = name
	c.run, err = begin(c.dir, c.args(name)...)
	return err
}

func (c *command) try(string) (bool, error) { return false, errCannot }

// held waits for a line that begins with held, or for the name of the lock's key.
func (c *command) held(within time.Duration) (string, error) {
	line, err := c.run.hear(within)
	if err != nil {
		return "", err
	}
	if token, ok := strings.CutPrefix(line, "held "); ok {
		return token, nil
	}
	if strings.HasPrefix(line, c.name+"/") {
		return "-", nil
	}
	return "", fmt.Errorf("it says %q", line)
}

func (c *command) unlock() error {
	c.run.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case _, ok := <-c.run.lines:
			if !ok {
				c.run.close()
				return nil
			}
		case <-limit.C:
			return errors.New("it does not end when it is told to")
		}
	}
}

func (c *command) pause() { c.run.pause() }

func (c *command) resume() { c.run.resume() }

func (c *command) kill() {
	if c.run != nil {
		c.run.kill()
	}
}

func (c *command) close() {
	if c.run != nil {
		c.run.close()
	}
}
