//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// atLeast is how long a lock must stay taken although it is released at once.
const atLeast = 2 * time.Second

// rounding is how much a time may lose in a table.
const rounding = 50 * time.Millisecond

// least lets a client take a lock for a shortest time and release it at once, while the contender wants it. The time counts
// from a moment that is not before the one that release returns.
func least(release func(s *scene) (from time.Time, err error), contender kind) (string, error) {
	s := newScene(fullName)
	defer s.end()
	c, err := s.start(contender)
	if err != nil {
		return "", err
	}
	from, err := release(s)
	if err != nil {
		return "", err
	}
	if err := s.takes(c, atLeast+patience); err != nil {
		return "", err
	}
	return after(from, atLeast)
}

// after returns when the contender held, and an error if that was too soon.
func after(from time.Time, soonest time.Duration) (string, error) {
	took := time.Since(from)
	seen := fmt.Sprintf("the contender holds %v after that", took.Round(100*time.Millisecond))
	if took < soonest-rounding {
		return "", errors.New(seen)
	}
	return seen, nil
}

// shedLeast uses lockAtLeastFor of ShedLock, which counts from the lock.
func (b *rowBase) shedLeast(s *scene) (time.Time, error) {
	c, err := s.start(b.shed("ShedLock", shedLock{clock: "database"}))
	if err != nil {
		return time.Time{}, err
	}
	if err := c.(spoken).tell(fmt.Sprintf("least %d", atLeast.Milliseconds()), "free"); err != nil {
		return time.Time{}, err
	}
	from := time.Now()
	if err := s.takes(c, patience); err != nil {
		return time.Time{}, err
	}
	return from, c.unlock()
}

// stileLeast uses UnlockAfter of stile, which counts from the release.
func (b *rowBase) stileLeast(s *scene) (time.Time, error) {
	ctx := context.Background()
	l, err := lockers["stile"](ctx, b.stile("shedlock"))
	if err != nil {
		return time.Time{}, err
	}
	defer l.close()
	if _, err := l.lock(ctx, s.name); err != nil {
		return time.Time{}, err
	}
	from := time.Now()
	return from, l.(*stileLocker).held.UnlockAfter(atLeast)
}

// tell sends a line and waits for an answer that starts with a word.
func (c spoken) tell(line, answer string) error {
	if err := c.say(line); err != nil {
		return err
	}
	_, err := c.answer(patience, answer)
	return err
}

// short and longer are how long ShedLock takes a lock at first, and after it was extended. In between, the contender must
// still wait.
const short, longer = 2 * session, 3 * session

// extended lets ShedLock extend a lock while another client waits for it, and once more when that client has it.
func (b *rowBase) extended(contender kind) (string, error) {
	s := newScene(fullName)
	defer s.end()
	x, y, err := s.pair(b.shed("ShedLock", shedLock{clock: "database", most: short}), contender)
	if err != nil {
		return "", err
	}
	extend := fmt.Sprintf("extend %d", longer.Milliseconds())
	since := time.Now()
	if err := x.(spoken).tell(extend, "held"); err != nil {
		return "", err
	}
	if err := s.granted(y, longer+patience); err != nil {
		return "", err
	}
	seen, err := after(since, longer)
	if err != nil {
		return "", err
	}
	if err := x.(spoken).tell(extend, "free"); err != nil {
		return "", fmt.Errorf("%s; a second extension is not refused: %w", seen, err)
	}
	return seen + "; a second extension is refused", nil
}

// apart lets the holder take the lock and the contender try it.
func apart(holder, contender kind) (string, error) {
	s := newScene(fullName)
	defer s.end()
	x, err := s.start(holder)
	if err != nil {
		return "", err
	}
	y, err := s.start(contender)
	if err != nil {
		return "", err
	}
	if err := s.takes(x, patience); err != nil {
		return "", fmt.Errorf("the holder: %w", err)
	}
	got, err := y.try(s.name)
	if got {
		err = errors.New("both hold")
	}
	return "the contender does not get it", err
}

// lasting returns ShedLock's kind with locks that outlast a play, by the database's clock.
func (b *rowBase) lasting(s shedLock) kind {
	s.most, s.clock = 2*time.Minute, "database"
	return b.shed("ShedLock", s)
}

// shedPlays are plays on what ShedLock can do beside locking, and with wrong clocks of programs while the database's clock
// counts.
func (b *rowBase) shedPlays() []play {
	stile := b.setting.own("stile", b.stile("shedlock"))
	released := fmt.Sprintf("a lock is released at once, but is to stay taken for %v", atLeast)
	const clocks = "clocks and time zones of the programs differ"
	return []play{
		{released, "lockAtLeastFor of ShedLock, then stile", func() (string, error) { return least(b.shedLeast, stile) }},
		{released, "UnlockAfter of stile, then ShedLock", func() (string, error) { return least(b.stileLeast, b.lasting(shedLock{})) }},
		{
			fmt.Sprintf("ShedLock extends its lock of %v to %v", short, longer), "stile waits",
			func() (string, error) { return b.extended(stile) },
		},
		{clocks, "stile, then ShedLock in Tokyo with usingDbTime, 10 s ahead", func() (string, error) {
			return apart(stile, b.lasting(shedLock{zone: "Asia/Tokyo", ahead: 10_000}))
		}},
		{clocks, "ShedLock in New York with usingDbTime, an hour behind, then stile", func() (string, error) {
			return apart(b.lasting(shedLock{zone: "America/New_York", ahead: -3_600_000}), stile)
		}},
	}
}

// zonePlays are plays with a client whose connections have another time zone than the server, on columns without a zone.
func (b *rowBase) zonePlays() []play {
	stile := b.setting.own("stile", b.stile("shedlock")+"&table=zoneless")
	shed := b.lasting(shedLock{more: "?sessionVariables=time_zone='+00:00'", table: "zoneless"})
	const what = "one client sets its connections to another time zone than the server's; columns without a zone"
	return []play{
		{what, "stile, then ShedLock in UTC", func() (string, error) { return apart(stile, shed) }},
		{what, "ShedLock in UTC, then stile", func() (string, error) { return apart(shed, stile) }},
	}
}
