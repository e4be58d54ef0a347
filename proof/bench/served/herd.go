//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// herd lets many clients wait for one name, by the program proof/herd.
func herd(r *run) error {
	waiters, lasts := 10_000, 30*time.Second
	if r.short {
		waiters, lasts = 200, time.Second
	}
	program, err := r.build("proof/herd")
	if err != nil {
		return err
	}
	service := r.overRedis()
	cmd := exec.Command(program, "-json", "-at", service.Addr, "-waiters", fmt.Sprint(waiters), "-for", lasts.String(), "-within", "3m",
		"-pids", fmt.Sprintf("%d,%d", service.Pid(), r.redis.Pid()))
	cmd.Stderr = r.log
	text, failed := cmd.Output()
	var res struct {
		Lost                 int
		Came, Waited, Passed time.Duration
		Waiting              []struct {
			Share  float64
			Memory int64
		}
	}
	if err := json.Unmarshal(text, &res); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		return fmt.Errorf("herd: %w: %s", failed, text)
	}
	t := r.page.table("Many who wait for one name", fmt.Sprintf("`PUT`s that wait, over Redis, from `go run ./proof/herd`. They come at once, wait for %v, and then pass the lock "+
		"on. Processor and memory are those while they wait.", res.Waited.Round(time.Second)),
		"waiters", "places lost", "all were in the queue after", "service", "store", "all had held after")
	t.row(grouped(float64(waiters), 0), fmt.Sprint(res.Lost), seconds(res.Came),
		fmt.Sprintf("%s, %d MiB", share(res.Waiting[0].Share), res.Waiting[0].Memory>>20), fmt.Sprintf("%s, %d MiB", share(res.Waiting[1].Share), res.Waiting[1].Memory>>20),
		seconds(res.Passed))
	r.page.target(fmt.Sprintf("places lost of %s clients that wait for one name", grouped(float64(waiters), 0)), float64(res.Lost), atMost, 0)
	r.say("herd: %d of %d places were lost", res.Lost, waiters)
	return nil
}
