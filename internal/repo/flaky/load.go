//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// load starts processes that keep a processor busy each. They end when stop is called, when this process ends, and after a
// time at the latest.
func load(n int, bound time.Duration) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var stops []func()
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for range n {
		cmd := exec.Command(self, "-spin", bound.String())
		cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, func() {
			in.Close()
			cmd.Wait()
		})
	}
	return stop, nil
}

// busy computes until its input is closed, or for a time.
func busy(bound time.Duration) {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
		ended.Store(true)
	}()
	for start := time.Now(); !ended.Load() && time.Since(start) < bound; {
		for i := range 1_000_000 {
			_ = i * i
		}
	}
}
