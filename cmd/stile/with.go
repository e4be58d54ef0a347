package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/guard"
)

// withStore opens the store for one look at it.
func withStore(cmd *cobra.Command, s *store, f func(ctx context.Context, c *stile.Client) error) error {
	s.tells = true
	ctx, stop := untilSignal(cmd.Context(), listen(guard.Ending))
	defer stop()
	c, err := s.look(ctx)
	if errors.Is(err, errNone) {
		c, err = nothing(ctx)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}

// withMade opens the store, and makes it if it is missing.
func withMade(cmd *cobra.Command, s *store, f func(ctx context.Context, c *stile.Client) error) error {
	ctx, stop := untilSignal(cmd.Context(), listen(guard.Ending))
	defer stop()
	c, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}
