//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// pair starts two clients: the first takes the lock, and the second waits for it.
func (s *scene) pair(holder, contender kind) (a, b client, err error) {
	if a, err = s.start(holder); err != nil {
		return nil, nil, err
	}
	if b, err = s.start(contender); err != nil {
		return nil, nil, err
	}
	if err := s.takes(a, patience); err != nil {
		return nil, nil, fmt.Errorf("the holder: %w", err)
	}
	if err := b.lock(s.name); err != nil {
		return nil, nil, err
	}
	if err := waits(b); err != nil {
		return nil, nil, fmt.Errorf("the contender: %w", err)
	}
	return a, b, nil
}

// late stops the holder's process until the contender holds, and then lets it go on and release the lock that it no longer
// has.
func late(holder, contender kind, r *result) error {
	s := newScene(r.names)
	defer s.end()
	third, err := s.start(contender)
	if err != nil {
		return err
	}
	a, b, err := s.pair(holder, contender)
	if err != nil {
		return err
	}
	a.pause()
	since := time.Now()
	if err := s.granted(b, latest(holder, contender)); err != nil {
		return fmt.Errorf("the contender, when the holder was stopped: %w", err)
	}
	r.expired = time.Since(since)
	if r.expired < soonest(holder) {
		return fmt.Errorf("the contender holds %v after the holder was stopped, before a lease could end", r.expired)
	}
	a.resume()
	r.told = a.unlock() != nil
	if err := third.lock(s.name); err != nil {
		return err
	}
	if err := waits(third); err != nil {
		return fmt.Errorf("a third client, after the late release: %w", err)
	}
	if err := b.unlock(); err != nil {
		return fmt.Errorf("the contender's unlock, after the late release: %w", err)
	}
	if err := s.granted(third, prompt); err != nil {
		return fmt.Errorf("a third client, after the contender's unlock: %w", err)
	}
	return nil
}

// outlast lets the holder hold for more than three leases.
func outlast(holder, contender kind, r *result) error {
	s := newScene(r.names)
	defer s.end()
	a, b, err := s.pair(holder, contender)
	if err != nil {
		return err
	}
	token, err := b.held(3*holder.ends + holder.ends/2)
	if err == nil {
		return fmt.Errorf("the contender holds, token %q, while the holder renews", token)
	}
	if !errors.Is(err, errWaits) {
		return fmt.Errorf("the contender, while the holder renews: %w", err)
	}
	if err := a.unlock(); err != nil {
		return fmt.Errorf("the holder's unlock: %w", err)
	}
	r.outlasts = true
	return s.granted(b, prompt)
}

// leaseTable writes a Markdown table of the results on stores whose locks are leases.
func leaseTable(out io.Writer, results []result) {
	var rows folded
	for _, r := range results {
		if r.expired == 0 {
			continue
		}
		renewed, told := "cannot", "frees nothing"
		if r.outlasts {
			renewed = "yes"
		}
		if r.told {
			told += ", and is told"
		}
		rows.add(r.store, fmt.Sprintf("| %s | %s | %s | %s | %s |",
			r.holder, r.contender, renewed, shown(r.expired, 100*time.Millisecond), told))
	}
	rows.write(out, "| holder | contender | holds on for three leases | when it is stopped, the contender holds after | its late release |")
}
