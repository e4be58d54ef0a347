package shard_test

import "github.com/stilelock/stile/internal/drive"

// The calls of a driver, as tests make them.
var (
	enter = drive.Enter
	leave = drive.Leave
)
