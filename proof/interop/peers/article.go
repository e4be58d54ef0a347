//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// age makes a lock's row as old as it must be for others to take it for an abandoned one.
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

// handed lets the contender wait until the holder releases, or until five minutes have passed since the holder died.
func (b *rowBase) handed(holder, contender kind, dies bool) (string, error) {
	s := newScene(fullName)
	defer s.end()
	x, y, err := s.pair(holder, contender)
	if err != nil {
		return "", err
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
		return "", err
	}
	since := time.Now()
	if err := s.granted(y, patience); err != nil {
		return "", err
	}
	return fmt.Sprintf("the contender waits, and holds %v after that", time.Since(since).Round(10*time.Millisecond)), nil
}

// stopped stops the holder until five minutes have passed and another client holds. Then the first one goes on and
// releases, and a third one tries.
func (b *rowBase) stopped(holder, contender kind) (string, error) {
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
	z, err := s.start(contender)
	if err != nil {
		return "", err
	}
	if err := s.takes(x, patience); err != nil {
		return "", fmt.Errorf("the first: %w", err)
	}
	x.pause()
	if err := b.age(s.name); err != nil {
		return "", err
	}
	if err := s.takes(y, patience); err != nil {
		return "", fmt.Errorf("the second: %w", err)
	}
	x.resume()
	if err := x.unlock(); err == nil {
		return "", errors.New("the first hears nothing of its loss")
	}
	got, err := z.try(s.name)
	if got {
		err = errors.New("the second and a third hold")
	}
	return "the first hears that it lost the lock; only the second holds", err
}

// articlePlays are the plays on the lock in tb_distributed_lock, by the code that articles show and by stile.
func (b *rowBase) articlePlays() (list []play) {
	article := b.java("article", nil, "article", b.jdbc, b.user, "tb_distributed_lock", "host-7")
	stile := b.setting.own("stile", b.stile("tb_distributed_lock"))
	const table = ", tb_distributed_lock"
	const first, second = "an article's code, then stile", "stile, then an article's code"
	for _, end := range []struct {
		what string
		dies bool
	}{{"the holder releases" + table, false}, {"the holder is killed, and five minutes are over" + table, true}} {
		list = append(list,
			play{end.what, first, func() (string, error) { return b.handed(article, stile, end.dies) }},
			play{end.what, second, func() (string, error) { return b.handed(stile, article, end.dies) }},
		)
	}
	return append(list, play{
		"the holder is stopped for five minutes until another client holds, and then releases" + table, second,
		func() (string, error) { return b.stopped(stile, article) },
	})
}
