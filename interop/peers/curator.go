//go:build unix

package main

import (
	"context"
	"errors"
)

// curatorLocker is Curator's mutex, in a process of its own.
type curatorLocker struct{ spoken }

// openCurator starts Curator's client.
func (w *setting) openCurator(_ context.Context, addr string) (locker, error) {
	c, err := w.java("Curator mutex", "mutex", addr).start()
	if err != nil {
		return nil, err
	}
	return curatorLocker{c.(spoken)}, nil
}

func (l curatorLocker) lock(ctx context.Context, name string) (string, error) {
	if err := l.spoken.lock(name); err != nil {
		return "", err
	}
	for {
		token, err := l.held(window)
		if !errors.Is(err, errWaits) || ctx.Err() != nil {
			return token, err
		}
	}
}

func (l curatorLocker) unlock(context.Context) error { return l.spoken.unlock() }

// believes asks isAcquiredInThisProcess.
func (l curatorLocker) believes() (bool, error) {
	if err := l.say("believes"); err != nil {
		return false, err
	}
	line, err := l.answer(patience, "held", "free")
	return line != "free", err
}
