//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// both has the holder take the lock and the contender try it.
func (b *rowBase) both(holder, contender kind) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	x, y, err := s.two(holder, contender)
	if err != nil {
		return "", false, err
	}
	if err := s.takes(x, patience); err != nil {
		return "", false, fmt.Errorf("the holder: %w", err)
	}
	got, err := y.try(s.name)
	if err != nil {
		return "", false, err
	}
	if got {
		return "both hold", true, nil
	}
	return "the contender does not get it", false, nil
}

// two starts two clients.
func (s *scene) two(first, second kind) (a, b client, err error) {
	if a, err = s.start(first); err == nil {
		b, err = s.start(second)
	}
	return a, b, err
}

// late stops a holder until another client holds; then the first goes on and releases, and a third tries. While the holder
// is stopped, its row may be made older.
func (b *rowBase) late(first, second, third kind, age func(name string) error) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	x, y, err := s.two(first, second)
	if err != nil {
		return "", false, err
	}
	z, err := s.start(third)
	if err != nil {
		return "", false, err
	}
	if err := s.takes(x, patience); err != nil {
		return "", false, fmt.Errorf("the first: %w", err)
	}
	x.pause()
	if err := age(s.name); err != nil {
		return "", false, err
	}
	if err := s.takes(y, first.ends+patience); err != nil {
		return "", false, fmt.Errorf("the second: %w", err)
	}
	x.resume()
	told := x.unlock()
	got, err := z.try(s.name)
	if err != nil {
		return "", false, err
	}
	seen := "the first is told nothing"
	if told != nil {
		seen = "the first is told that it lost the lock"
	}
	if !got {
		return seen + "; the second alone holds", false, nil
	}
	seen += "; the second and a third hold"
	if err := y.unlock(); err != nil {
		seen += ", and the second is told that it lost the lock"
	}
	return seen, true, nil
}

// timely leaves a row as it is: its time will be over soon.
func timely(string) error { return nil }

// said is what a client said when it failed, in short.
func said(err error) string {
	text := strings.TrimSuffix(strings.TrimPrefix(err.Error(), "it says \"error "), "\"")
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\"`, `"`), fullName, "")
	if _, reason, ok := strings.Cut(text, "ERROR: "); ok { // of PostgreSQL, after the statement
		text = reason
	}
	return "the client gets the error \"" + text + "\""
}

// long has a client take a lock whose name has a character more than the column has room for, and release it.
func (b *rowBase) long(k kind) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	c, err := s.start(k)
	if err != nil {
		return "", false, err
	}
	name := s.name + "!"
	got, err := c.try(name)
	if err != nil {
		return said(err), false, nil
	}
	if !got {
		return "the client is told that another has it, each time", true, nil
	}
	if err := c.unlock(); err != nil {
		return "", false, err
	}
	if got, err = c.try(name); err != nil || got {
		return "the client holds, and again after its release", false, err
	}
	return "the client holds; after its release it does not get it again", true, nil
}

// atLeast is for how long a lock is to stay taken when it is released at once.
const atLeast = 2 * time.Second

// least has a client take a lock for a shortest time and release it at once. The contender wants it. The time counts from
// a moment that is not before the one that release returns.
func (b *rowBase) least(release func(s *scene) (from time.Time, err error), contender kind) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	c, err := s.start(contender)
	if err != nil {
		return "", false, err
	}
	from, err := release(s)
	if err != nil {
		return "", false, err
	}
	if err := s.takes(c, atLeast+patience); err != nil {
		return "", false, err
	}
	after := time.Since(from)
	return fmt.Sprintf("the contender holds %v after that", after.Round(100*time.Millisecond)), after < atLeast-rounding, nil
}

// rounding is what a time may lose in a table.
const rounding = 50 * time.Millisecond

// shedLeast is lockAtLeastFor of ShedLock, which counts from when the lock was taken.
func (b *rowBase) shedLeast(s *scene) (time.Time, error) {
	c, err := s.start(b.shed("ShedLock", shedLock{by: "-", clock: "database"}))
	if err != nil {
		return time.Time{}, err
	}
	if err := c.(spoken).tell(fmt.Sprintf("least %d", atLeast.Milliseconds()), "free"); err != nil {
		return time.Time{}, around(err)
	}
	from := time.Now()
	if err := s.takes(c, patience); err != nil {
		return time.Time{}, around(err)
	}
	return from, around(c.unlock())
}

// stileLeast is UnlockAfter of stile, which counts from the release.
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

// tell says something and waits for an answer that begins with a word.
func (c spoken) tell(line, answer string) error {
	if err := c.say(line); err != nil {
		return err
	}
	_, err := c.answer(patience, answer)
	return err
}

// short and longer are how long ShedLock takes a lock, and then extends it. The contender is seen to wait in between.
const short, longer = 2 * session, 3 * session

// extended has ShedLock extend a lock while another client waits for it, and then once more, when that client has it.
func (b *rowBase) extended(contender kind) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	x, y, err := s.pair(b.shed("ShedLock", shedLock{by: "-", clock: "database", most: short}), contender)
	if err != nil {
		return "", false, err
	}
	extend := fmt.Sprintf("extend %d", longer.Milliseconds())
	since := time.Now()
	if err := x.(spoken).tell(extend, "held"); err != nil {
		return "", false, around(err)
	}
	if err := s.granted(y, longer+patience); err != nil {
		return "", false, err
	}
	after := time.Since(since)
	seen := fmt.Sprintf("the contender holds %v after that", after.Round(100*time.Millisecond))
	if err := x.(spoken).tell(extend, "free"); err != nil {
		return seen + "; a second extension is not refused", true, nil
	}
	return seen + "; a second extension is refused", after < longer-rounding, nil
}

// alike has a client hold a name when another comes for one that differs in what the table's collation does not see.
func (b *rowBase) alike(k kind) (string, bool, error) {
	s := newScene("")
	defer s.end()
	x, y, err := s.two(k, k)
	if err != nil {
		return "", false, err
	}
	if err := s.takes(x, patience); err != nil {
		return "", false, err
	}
	got, err := y.try(strings.ToUpper(s.name))
	switch {
	case errors.Is(err, errCannot):
		return "", false, err
	case err != nil:
		return strings.ReplaceAll("the second: "+said(err), strings.ToUpper(s.name), "NAME in capitals"), false, nil
	case got:
		return "both hold", false, nil
	}
	return "the second client is told that another has its lock", true, nil
}

// unhurried is the time of a lock that no play outlasts.
const unhurried = 2 * time.Minute

// lasting is ShedLock whose locks outlast a play.
func (b *rowBase) lasting(s shedLock) kind {
	s.most = unhurried
	return b.shed("ShedLock", s)
}

func (b *rowBase) shedFlaws(name string) []flaw {
	// ShedLock does not renew: what it holds is over after session, or lasts as long as a play does.
	host := shedLock{by: "-", clock: "database"}
	brief, shed := b.shed("ShedLock", host), b.lasting(host)
	named := b.shed("ShedLock", shedLock{by: "a", clock: "database"})
	stile := b.setting.own("stile", b.stile("shedlock"))
	far := func(zone string, ahead int, clock string) kind {
		return b.lasting(shedLock{by: "-", clock: clock, zone: zone, ahead: ahead})
	}
	const west, east = "America/New_York", "Asia/Tokyo"
	two := func(x, y kind) func() (string, bool, error) {
		return func() (string, bool, error) { return b.both(x, y) }
	}
	late := func(x, y, z kind) func() (string, bool, error) {
		return func() (string, bool, error) { return b.late(x, y, z, timely) }
	}
	long := fails // the database cuts the name
	if name == "PostgreSQL" {
		long = passes
	}
	in := ", " + name
	return []flaw{
		{number: 21, what: "a holder is stopped until another client of its host holds, and then releases" + in, plays: []play{
			{"ShedLock, named for the host", fails, late(brief, shed, stile)},
			{"ShedLock, with a name of its own", passes, late(named, shed, stile)},
			{"ShedLock, and then stile", passes, late(brief, stile, shed)},
			{"stile, and then ShedLock", passes, late(stile, shed, stile)},
			{"stile", passes, late(stile, stile, shed)},
		}},
		{number: 22, what: "clocks and time zones of the programs differ" + in, plays: []play{
			{"ShedLock by its own clock in New York, then ShedLock in Tokyo", fails, two(far(west, 0, "own"), far(east, 0, "own"))},
			{"ShedLock by its own clock in New York, then stile", fails, two(far(west, 0, "own"), stile)},
			{"stile, then ShedLock by its own clock in Tokyo", fails, two(stile, far(east, 0, "own"))},
			{"stile, then ShedLock by its own clock in UTC, 10 s ahead", fails, two(stile, far("", 10_000, "utc"))},
			{"stile, then ShedLock in Tokyo with usingDbTime, 10 s ahead", passes, two(stile, far(east, 10_000, "database"))},
			{
				"ShedLock in New York with usingDbTime, an hour behind, then stile", passes,
				two(far(west, -3_600_000, "database"), stile),
			},
		}},
		{number: 23, what: "a name has 65 characters" + in, plays: []play{
			{"ShedLock", long, func() (string, bool, error) { return b.long(shed) }},
			{"stile", passes, func() (string, bool, error) { return b.long(stile) }},
		}},
		{number: 24, what: fmt.Sprintf("a lock is released at once, but is to stay taken for %v%s", atLeast, in), plays: []play{
			{"lockAtLeastFor of ShedLock, then stile", passes, func() (string, bool, error) { return b.least(b.shedLeast, stile) }},
			{"UnlockAfter of stile, then ShedLock", passes, func() (string, bool, error) { return b.least(b.stileLeast, shed) }},
		}},
		{number: 25, what: fmt.Sprintf("ShedLock extends its lock of %v to %v%s", short, longer, in), plays: []play{
			{"stile waits", passes, func() (string, bool, error) { return b.extended(stile) }},
		}},
	}
}

func (w *setting) postgresFlaws(t servertest.TB) ([]flaw, error) {
	return w.postgresBase(t).shedFlaws("PostgreSQL"), nil
}

func (w *setting) mariaDBFlaws(t servertest.TB) ([]flaw, error) {
	b := w.mariaDBBase(t)
	shed, stile := b.lasting(shedLock{by: "-", clock: "database"}), w.own("stile", b.stile("shedlock"))
	const utc = "?sessionVariables=time_zone='+00:00'"
	far := b.lasting(shedLock{by: "-", clock: "database", more: utc})
	zoneless := b.lasting(shedLock{by: "-", clock: "database", more: utc, table: "zoneless"})
	better := w.own("stile", b.stile("shedlock")+"&table=zoneless")
	list := append(b.shedFlaws("MariaDB"),
		flaw{number: 26, what: "two names differ in capitals alone, MariaDB", plays: []play{
			{"ShedLock", fails, func() (string, bool, error) { return b.alike(shed) }},
			{"stile", passes, func() (string, bool, error) { return b.alike(stile) }},
		}},
		flaw{number: 27, what: "one client sets its connections to another time zone than the server's, MariaDB", plays: []play{
			{"ShedLock, then ShedLock in UTC", fails, func() (string, bool, error) { return b.both(shed, far) }},
			{"stile, then ShedLock in UTC", fails, func() (string, bool, error) { return b.both(stile, far) }},
			{
				"stile, then ShedLock in UTC, columns without a zone", passes,
				func() (string, bool, error) { return b.both(better, zoneless) },
			},
			{
				"ShedLock in UTC, then stile, columns without a zone", passes,
				func() (string, bool, error) { return b.both(zoneless, better) },
			},
		}},
	)
	return append(list, b.articleFlaws()...), nil
}
