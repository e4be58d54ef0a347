//go:build unix

package main

import "context"

// curatorLocker is Curator's mutex, in a process of its own.
type curatorLocker struct{ spokenLocker }

// openCurator starts Curator's client.
func (w *setting) openCurator(_ context.Context, addr string) (locker, error) {
	l, err := w.java("Curator mutex", "mutex", addr).open()
	return curatorLocker{l}, err
}

// believes asks isAcquiredInThisProcess.
func (l curatorLocker) believes() (bool, error) {
	if err := l.say("believes"); err != nil {
		return false, err
	}
	line, err := l.answer(patience, "held", "free")
	return line != "free", err
}
