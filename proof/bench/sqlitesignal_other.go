//go:build unix && !linux

package main

import "time"

// A futexSignal wakes nobody: only Linux has futexes.
type futexSignal struct{}

func openFutexSignal(string) (*futexSignal, error) { return &futexSignal{}, nil }

func (*futexSignal) close()          {}
func (*futexSignal) wakeups() uint32 { return 0 }
func (*futexSignal) wake()           {}

// wait returns after some time, like stile's waiters without futexes.
func (*futexSignal) wait(uint32) { time.Sleep(time.Millisecond) }
