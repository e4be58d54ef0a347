package redis_test

import "github.com/stilelock/stile/internal/drive"

// The driver's calls, as methods for tests.
var (
	holds  = drive.Holds
	leaves = drive.Leave
	soon   = drive.Timely
	opener = drive.Opener
)
