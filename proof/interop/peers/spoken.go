//go:build unix

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A spoken client is a process that takes orders in lines; see serve.
type spoken struct{ *process }

// converse starts a spoken client and waits until it is connected.
func converse(dir string, args ...string) (client, error) {
	p, err := begin(dir, args...)
	if err != nil {
		return nil, err
	}
	c := spoken{p}
	if _, err := c.answer(2*patience, "ready"); err != nil {
		p.close()
		return nil, err
	}
	return c, nil
}

func (c spoken) say(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

// answer waits for a line that begins with one of the words, and returns it.
func (c spoken) answer(within time.Duration, words ...string) (string, error) {
	line, err := c.hear(within)
	if err != nil {
		return "", err
	}
	for _, word := range words {
		if line == word || strings.HasPrefix(line, word+" ") {
			return line, nil
		}
	}
	return "", fmt.Errorf("it says %q", line)
}

func (c spoken) lock(name string) error { return c.say("lock " + name) }

func (c spoken) try(name string) (bool, error) {
	if err := c.say("try " + name); err != nil {
		return false, err
	}
	line, err := c.answer(patience, "held", "busy", "error this kind")
	if err == nil && strings.HasPrefix(line, "error") {
		err = errCannot
	}
	return strings.HasPrefix(line, "held"), err
}

func (c spoken) held(within time.Duration) (string, error) {
	line, err := c.answer(within, "held")
	return strings.TrimPrefix(line, "held "), err
}

func (c spoken) unlock() error {
	if err := c.say("unlock"); err != nil {
		return err
	}
	_, err := c.answer(patience, "free")
	return err
}

// ask makes the client ask for a lock that another one holds.
func (c spoken) ask(name string) error {
	if err := c.say("ask " + name); err != nil {
		return err
	}
	_, err := c.answer(patience, "asked")
	return err
}

// asks returns how often the client's lock was asked for.
func (c spoken) asks() (int, error) {
	if err := c.say("asks"); err != nil {
		return 0, err
	}
	line, err := c.answer(patience, "asks")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimPrefix(line, "asks "))
}

// downgrade turns the client from a writer into a reader, and waits until that is done.
func (c spoken) downgrade() error {
	if err := c.say("downgrade"); err != nil {
		return err
	}
	_, err := c.answer(patience, "held")
	return err
}
