//go:build unix

package main

import "fmt"

// A counting is a client that changes the count of permits of a scene's name.
type counting func(s *scene) (set func(n int) error, err error)

// countedBy is a client whose count is changed.
func countedBy(k kind) counting {
	return func(s *scene) (func(n int) error, error) {
		c, err := s.start(k)
		if err != nil {
			return nil, err
		}
		return func(n int) error { return c.(spoken).count(s.name, n) }, nil
	}
}

// count has the client change the count of a name, which is Curator's SharedCount.
func (c spoken) count(name string, n int) error {
	if err := c.say(fmt.Sprintf("count %s %d", name, n)); err != nil {
		return err
	}
	_, err := c.answer(patience, "counted")
	return err
}

// recounted has the count rise from one to two while one client holds and another waits, and fall again while both hold: the
// waiter holds when it rises, nobody loses a permit when it falls, and a third client waits until both have given theirs back.
func recounted(holder, contender, third kind, by counting) (string, bool, error) {
	s := newScene("")
	defer s.end()
	set, err := by(s)
	if err != nil {
		return "", false, err
	}
	if err := set(1); err != nil {
		return "", false, fmt.Errorf("the first count: %w", err)
	}
	a, b, err := s.pair(holder, contender)
	if err != nil {
		return "", false, err
	}
	c, err := s.start(third)
	if err != nil {
		return "", false, err
	}
	if err := set(2); err != nil {
		return "", false, fmt.Errorf("the higher count: %w", err)
	}
	if err := s.granted(b, prompt); err != nil {
		return "", false, fmt.Errorf("the waiter, after the count rose: %w", err)
	}
	if err := set(1); err != nil {
		return "", false, fmt.Errorf("the lower count: %w", err)
	}
	if err := c.lock(s.name); err != nil {
		return "", false, err
	}
	for _, step := range []struct {
		what string
		does func() error
	}{{"the count fell", func() error { return nil }}, {"the first release", a.unlock}} {
		if err := step.does(); err != nil {
			return "", false, fmt.Errorf("%s: %w", step.what, err)
		}
		if err := waits(c); err != nil {
			return "", false, fmt.Errorf("the third client, after %s: %w", step.what, err)
		}
	}
	if err := b.unlock(); err != nil {
		return "", false, fmt.Errorf("the second release: %w", err)
	}
	if err := s.granted(c, prompt); err != nil {
		return "", false, fmt.Errorf("the third client, after both releases: %w", err)
	}
	return "the waiter holds when the count rises; after it fell, a third client holds once both have released", false, nil
}

// zooKeeperCounts are semaphores that go by a count, which each side changes.
func (w *setting) zooKeeperCounts(addr string) flaw {
	url := "zk://" + addr + "?prefix=&layout=semaphore&session=" + session.String()
	theirs, own := w.java("Curator by count", "counted", addr), w.own("stile by count", url)
	count := func(holder, contender, third kind, by counting) func() (string, bool, error) {
		return func() (string, bool, error) { return recounted(holder, contender, third, by) }
	}
	return flaw{number: 34, what: "the count of permits rises and falls while one client holds and another waits", plays: []play{
		{"SharedCount of Curator; stile waits for Curator", passes, count(theirs, own, theirs, countedBy(theirs))},
		{"SharedCount of Curator; Curator waits for stile", passes, count(own, theirs, own, countedBy(theirs))},
	}}
}
