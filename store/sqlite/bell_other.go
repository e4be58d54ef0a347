//go:build !linux

package sqlite

import "context"

// A bell wakes the waiters of other processes. Only Linux has what it needs.
type bell struct{}

func (*files) hang() *bell { return nil }

func (*bell) Ring([]string) {}

func (*bell) Looks() (uint32, bool) { return 0, false }

func (*bell) Hear(context.Context, string, func() bool, func(), func()) {}

func (*bell) take() error { return nil }
