package memcached

import "github.com/stilelock/stile/internal/drive"

// The driver's calls, as methods for tests.
var (
	timely = drive.Timely
	enter  = drive.Enter
	holds  = drive.Holds
	waits  = drive.Waits
	says   = drive.Says
	marks  = drive.Marks
	renew  = drive.Renew
)
