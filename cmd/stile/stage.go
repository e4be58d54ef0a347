package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/stilelock/stile/driver"
)

// A stage is where a demo plays.
type stage struct {
	dir     string // the demo's own
	address *driver.Address
	url     string // of the store: a file in dir, unless one was chosen
	traits  driver.Traits
}

// newStage makes a stage, and opens the store once: one that cannot be used is found out before the demo begins.
func newStage(ctx context.Context, s *store) (_ *stage, err error) {
	g := &stage{}
	if g.dir, err = os.MkdirTemp("", "stile-demo-"); err != nil {
		return nil, &status{exitFailed, err}
	}
	if err := g.open(ctx, s); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *stage) open(ctx context.Context, s *store) error {
	url, err := s.choose()
	if err != nil {
		return err
	}
	if url == defaultURL {
		s.url = "sqlite://" + filepath.ToSlash(g.path("locks.db"))
	}
	if g.address, g.url, err = s.address(); err != nil {
		return err
	}
	c, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	g.traits = c.Traits()
	return c.Close()
}

// path returns the path of a file of the demo.
func (g *stage) path(file string) string { return filepath.Join(g.dir, file) }

func (g *stage) close() { os.RemoveAll(g.dir) }
