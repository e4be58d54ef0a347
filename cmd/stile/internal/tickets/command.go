package tickets

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/demo"
)

// processCommand is the hidden command of a process of the demo.
func processCommand(name string, count int, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, Args: cobra.ExactArgs(count),
		RunE: func(cmd *cobra.Command, args []string) error { return demo.Failed(run(cmd.Context(), args)) },
	}
}

// locks makes the store of the command line a [demo.Store].
type locks struct{ *store.Store }

// Choose implements [demo.Store].
func (l *locks) Choose(file string) (*driver.Address, string, error) {
	url, err := l.Store.Choose()
	if err != nil {
		return nil, "", err
	}
	if url == store.DefaultURL {
		l.URL = "sqlite://" + file
	}
	return l.Address()
}

// Open implements [demo.Store].
func (l *locks) Open(ctx context.Context, ttl time.Duration) (*stile.Client, error) {
	l.TTL = ttl
	return l.Store.Open(ctx, nil)
}
