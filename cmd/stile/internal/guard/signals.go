package guard

import (
	"slices"
	"syscall"

	"github.com/stilelock/stile/internal/ending"
)

// PassedOn are the signals that stile passes on to CMD's group.
var PassedOn = append(slices.Clone(ending.Signals), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH)
