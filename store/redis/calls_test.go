package redis

import "github.com/stilelock/stile/internal/drive"

// The driver's calls, as methods for tests.
var (
	timely = drive.Timely
	enter  = drive.Enter
	leave  = drive.Leave
	says   = drive.Says
	marks  = drive.Marks
	renew  = drive.Renew
)
