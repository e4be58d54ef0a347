package shard_test

import "github.com/stilelock/stile/internal/drive"

// The driver's calls, as methods for tests.
var (
	enter = drive.Enter
	leave = drive.Leave
)
