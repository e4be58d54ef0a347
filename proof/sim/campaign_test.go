package sim_test

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// campaign is the loop of docs/howto/leader.md.
func campaign(ctx context.Context, locks *stile.Client, save func(context.Context, int64) error) error {
	for ctx.Err() == nil {
		err := locks.Candidate("scheduler", "10.0.0.7:8080").Do(ctx, func(ctx context.Context) error {
			return save(ctx, stile.Token(ctx)) // the work of a leader: it returns when ctx ends
		})
		if errors.Is(err, stile.ErrClosed) || errors.Is(err, stile.ErrInvalid) || errors.Is(err, stile.ErrUnsupported) {
			return err // the next try would fail in the same way
		}
		if err != nil {
			log.Print(err) // errors.Is(err, stile.ErrLost): the lease was lost while it led
			select {
			case <-time.After(time.Second): // the failure may last
			case <-ctx.Done():
			}
		}
	}
	return context.Cause(ctx)
}

// The loop in docs/howto/leader.md is the loop that this file tests.
func TestCampaignIsTheLoopOfTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/howto/leader.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("campaign_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```go\n")
	loop, _, _ := strings.Cut(rest, "```\n")
	loop = strings.TrimRight(strings.ReplaceAll("\n"+loop, "\n", "\n\t"), "\n\t")
	if !strings.Contains(string(source), loop+"\n}\n") {
		t.Errorf("this is not the loop that is tested:\n%s", loop)
	}
}

// A refused candidate does not ask again without a pause, and it stops if the refusal is permanent.
func TestCampaignDoesNotSpin(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	never := func(context.Context, int64) error { return nil }
	inWorld(t, func(w *world) {
		a, b := w.join(nil), w.join(nil)
		other := w.lock(b.Permit("scheduler", 1, 2)) // the name is in use for something else
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Minute, errEnough)
		defer cancel()
		if err := campaign(ctx, a.Client, never); !errors.Is(err, errEnough) {
			w.Errorf("got %v; want it to end with its context", err)
		}
		if n := a.d.Calls(memory.Enter); n < 50 || n > 61 {
			w.Errorf("it asked %d times in a minute; want once a second", n)
		}
		w.unlock(other)
		if err := a.Close(); err != nil {
			w.Error(err)
		}
		if err := campaign(w.Context(), a.Client, never); !errors.Is(err, stile.ErrClosed) {
			w.Errorf("of a closed client: %v; want ErrClosed", err)
		}
		if err := campaign(w.Context(), &stile.Client{}, never); !errors.Is(err, stile.ErrInvalid) {
			w.Errorf("of no client: %v; want ErrInvalid", err)
		}
	})
}
