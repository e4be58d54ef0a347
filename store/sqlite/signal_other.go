//go:build !linux

package sqlite

import "context"

// A futexSignal wakes the waiters of other processes. Only Linux has it.
type futexSignal struct{}

func (*files) openSignal() *futexSignal { return nil }

func (*futexSignal) Wake([]string) {}

func (*futexSignal) BeforePoll() (uint32, bool) { return 0, false }

func (*futexSignal) Listen(context.Context, string, func() bool, func(), func()) {}

func (*futexSignal) take() error { return nil }
