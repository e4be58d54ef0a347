package etcd

import "github.com/stilelock/stile/internal/drive"

// The calls of a driver for tests.
var (
	timely = drive.Timely
	enter  = drive.Enter
	leave  = drive.Leave
	says   = drive.Says
	renew  = drive.Renew
)
