package mysql

import "github.com/stilelock/stile/internal/drive"

// The driver's calls, as methods for tests.
var (
	timely  = drive.Timely
	claim   = drive.Claim
	enter   = drive.Enter
	leave   = drive.Leave
	says    = drive.Says
	marks   = drive.Marks
	renew   = drive.Renew
	refuses = drive.Refuses
	opener  = drive.Opener
)
