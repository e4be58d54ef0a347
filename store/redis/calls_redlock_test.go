package redis_test

import "github.com/stilelock/stile/internal/drive"

// The calls of a driver, as tests make them.
var (
	holds  = drive.Holds
	leaves = drive.Leave
	soon   = drive.Timely
	opener = drive.Opener
)
