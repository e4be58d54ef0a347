//go:build unix

package ending

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

// A signal that comes in the last moment of a wait is not lost: whoever took it reports it.
func TestSignalAtTheEndOfAWait(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	err := Interruptible(t.Context(), signals, func(ctx context.Context) error {
		<-ctx.Done()
		return nil // the store was open already
	})
	if got, ok := errors.AsType[*Interrupted](err); !ok || got.Signal != syscall.SIGTERM {
		t.Errorf("got %v, want the end by SIGTERM", err)
	}
}
