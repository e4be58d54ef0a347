//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// An asking is a client, or a command, that asks a holder for a lock.
type asking func(s *scene) (ask func() error, err error)

// askedBy returns the asking by a client.
func askedBy(k kind) asking {
	return func(s *scene) (func() error, error) {
		c, err := s.start(k)
		if err != nil {
			return nil, err
		}
		return func() error { return c.(spoken).ask(s.name) }, nil
	}
}

// askedByCommand returns the asking by stile break --ask.
func (w *setting) askedByCommand(url string) asking {
	return func(s *scene) (func() error, error) {
		return func() error {
			bin := filepath.Join(w.bin, "stile")
			out, err := exec.Command(bin, "break", "--url", url, "--ask", "--reason", "a play", s.name).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}, nil
	}
}

// asked lets somebody ask twice for a lock that one client holds and another waits for. The holder notices each request,
// goes on holding, and releases when it wants to.
func asked(holder, contender kind, by asking) (string, error) {
	s := newScene("")
	defer s.end()
	ask, err := by(s)
	if err != nil {
		return "", err
	}
	a, b, err := s.pair(holder, contender)
	if err != nil {
		return "", err
	}
	if n, err := a.(spoken).asks(); err != nil || n != 0 {
		return "", fmt.Errorf("the holder hears %d times of it, and nobody has asked (%w)", n, err)
	}
	for n := 1; n <= 2; n++ {
		if err := ask(); err != nil {
			return "", fmt.Errorf("asking: %w", err)
		}
		heard := 0
		err := until(fmt.Sprintf("the holder hears of it %d times", n), func() (bool, error) {
			var err error
			heard, err = a.(spoken).asks()
			return heard >= n, err
		})
		if err != nil {
			return "", err
		}
		if heard > n {
			return "", fmt.Errorf("the holder hears %d times of it, asked %d times", heard, n)
		}
	}
	if err := waits(b); err != nil {
		return "", fmt.Errorf("the contender, after the asking: %w", err)
	}
	if err := a.unlock(); err != nil {
		return "", fmt.Errorf("the holder's unlock: %w", err)
	}
	if err := s.granted(b, prompt); err != nil {
		return "", fmt.Errorf("the contender, after the unlock: %w", err)
	}
	return "the holder hears of it both times and holds on; another client waits until it releases", nil
}

// askings are Curator's revocation and stile's break --ask, each on the other's locks.
func (w *setting) askings(addr string) (list []play) {
	url := "zk://" + addr + "?prefix=&session=" + session.String()
	rw := url + "&layout=rw"
	mutex, own := w.java("Curator mutex", "revocable mutex", addr), w.own("stile", url)
	write, writer := w.java("Curator write", "revocable write", addr), w.own("stile writer", rw)
	for _, p := range []struct {
		who               string
		holder, contender kind
		by                asking
	}{
		{"Revoker, then the RevocationListener of another Curator", mutex, own, askedBy(mutex)},
		{"Revoker of Curator, then EventAsked of stile", own, mutex, askedBy(mutex)},
		{"Client.Ask of stile, then the RevocationListener of Curator", mutex, own, askedBy(own)},
		{"stile break --ask, then the RevocationListener of Curator", mutex, own, w.askedByCommand(url)},
		{"Revoker of Curator, then EventAsked of a writer of stile", writer, write, askedBy(write)},
		{"Client.Ask of stile, then the RevocationListener of a writer of Curator", write, writer, askedBy(writer)},
	} {
		list = append(list, play{"a client asks the holder for its lock, twice", p.who, func() (string, error) {
			return asked(p.holder, p.contender, p.by)
		}})
	}
	return list
}
