package store

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/ending"
)

// With opens the store for one reading function.
func With(cmd *cobra.Command, s *Store, f func(ctx context.Context, c *stile.Client) error) error {
	s.Tells = true
	ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
	defer stop()
	c, err := s.Look(ctx)
	if errors.Is(err, ErrNone) {
		c, err = Nothing(ctx)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}

// WithMade opens the store, and makes it if it is missing.
func WithMade(cmd *cobra.Command, s *Store, f func(ctx context.Context, c *stile.Client) error) error {
	ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
	defer stop()
	c, err := s.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}
