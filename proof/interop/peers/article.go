//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// article is the lock in tb_distributed_lock as articles show it.
func (b *rowBase) article() kind {
	return b.java("article", nil, "article", b.jdbc, b.user, "tb_distributed_lock", "host-7")
}

// age makes a lock's row older by as much as others wait for one that was left behind.
func (b *rowBase) age(name string) error {
	const older = "UPDATE tb_distributed_lock " +
		"SET dl_operate_time = dl_operate_time - INTERVAL 301 SECOND WHERE dl_method_name = ?"
	r, err := b.db.ExecContext(context.Background(), older, name)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); n != 1 {
		return fmt.Errorf("%d rows made older (%w)", n, err)
	}
	return nil
}

// handed has the contender wait until the holder releases, or dies and five minutes are over.
func (b *rowBase) handed(holder, contender kind, dies bool) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	x, y, err := s.pair(holder, contender)
	if err != nil {
		return "", false, err
	}
	if dies {
		x.kill()
		if err = waits(y); err == nil {
			err = b.age(s.name)
		}
	} else {
		err = x.unlock()
	}
	if err != nil {
		return "", false, err
	}
	since := time.Now()
	if err := s.granted(y, patience); err != nil {
		return "", false, err
	}
	return fmt.Sprintf("the contender waits, and holds %v after that", time.Since(since).Round(10*time.Millisecond)), false, nil
}

// behind leaves a row behind.
func (b *rowBase) behind(s *scene) error {
	c, err := s.start(b.article())
	if err != nil {
		return err
	}
	if err := s.takes(c, patience); err != nil {
		return err
	}
	c.kill()
	return b.age(s.name)
}

// sweep has two clients find the same row that was left behind, before either does anything about it.
func (b *rowBase) sweep() (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	if err := b.behind(s); err != nil {
		return "", false, err
	}
	x, y, err := s.two(b.article(), b.article())
	if err != nil {
		return "", false, err
	}
	for _, c := range []client{x, y} {
		if err := c.(spoken).tell("look "+s.name, "free"); err != nil {
			return "", false, err
		}
	}
	var all []string
	for _, c := range []client{x, y} {
		if err := c.(spoken).say("sweep " + s.name); err != nil {
			return "", false, err
		}
		line, err := c.(spoken).answer(patience, "held", "busy")
		if err != nil {
			return "", false, err
		}
		all = append(all, strings.TrimSuffix(line, " -"))
	}
	seen := "the two are told: " + strings.Join(all, ", ")
	return seen, all[0] == "held" && all[1] == "held", nil
}

// rush has five clients come at once to a row that was left behind.
func (b *rowBase) rush(k kind) (string, bool, error) {
	s := newScene(fullName)
	defer s.end()
	if err := b.behind(s); err != nil {
		return "", false, err
	}
	var cast []client
	for range 5 {
		c, err := s.start(k)
		if err != nil {
			return "", false, err
		}
		cast = append(cast, c)
	}
	for _, c := range cast {
		if err := c.lock(s.name); err != nil {
			return "", false, err
		}
	}
	waiting, err := cast, error(nil)
	limit := time.Now().Add(patience)
	for len(waiting) == len(cast) && err == nil && time.Now().Before(limit) {
		waiting, err = stillWait(cast)
	}
	if err == nil {
		waiting, err = stillWait(waiting) // when one holds already
	}
	holders := len(cast) - len(waiting)
	return fmt.Sprintf("of five, %d holds and %d wait", holders, len(waiting)), holders != 1, err
}

// stillWait watches clients that asked for a lock, one after the other, and returns those that have not got it.
func stillWait(cast []client) (list []client, err error) {
	for _, c := range cast {
		switch _, err := c.held(window); {
		case errors.Is(err, errWaits):
			list = append(list, c)
		case err != nil:
			return nil, err
		}
	}
	return list, nil
}

func (b *rowBase) articleFlaws() []flaw {
	article, stile := b.article(), b.setting.own("stile", b.stile("tb_distributed_lock"))
	handed := func(x, y kind, dies bool) func() (string, bool, error) {
		return func() (string, bool, error) { return b.handed(x, y, dies) }
	}
	late := func(x, y, z kind) func() (string, bool, error) {
		return func() (string, bool, error) { return b.late(x, y, z, b.age) }
	}
	const table = ", tb_distributed_lock"
	const stopped = "the holder is stopped for five minutes until another client holds, and then releases"
	return []flaw{
		{number: 28, what: "the holder releases" + table, plays: []play{
			{"an article's code, then stile", passes, handed(article, stile, false)},
			{"stile, then an article's code", passes, handed(stile, article, false)},
		}},
		{number: 29, what: "the holder is killed, and five minutes are over" + table, plays: []play{
			{"an article's code, then stile", passes, handed(article, stile, true)},
			{"stile, then an article's code", passes, handed(stile, article, true)},
		}},
		{number: 30, what: stopped + table, plays: []play{
			{"an article's code", fails, late(article, article, article)},
			{"an article's code, and then stile", fails, late(article, stile, article)},
			{"stile, and then an article's code", passes, late(stile, article, article)},
			{"stile", passes, late(stile, stile, article)},
		}},
		{number: 31, what: "clients come at once to a row that was left behind" + table, plays: []play{
			{"an article's code, twice", fails, b.sweep},
			{"stile, five times", passes, func() (string, bool, error) { return b.rush(stile) }},
		}},
	}
}
