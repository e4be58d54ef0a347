//go:build unix

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// Counters that a Redis server reports.

// redisDo runs a command and returns its answer if that is a text.
func redisDo(s *servertest.Server, args ...string) (string, error) {
	conn, err := servertest.DialRedis(s.Addr, nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	said, err := conn.Do(args...)
	text, _ := said.(string)
	return text, err
}

// A commandStat is how often a server has run a command, also inside scripts, and how long that took.
type commandStat struct {
	calls int64
	spent time.Duration
}

func redisStats(s *servertest.Server) (map[string]commandStat, error) {
	text, err := redisDo(s, "INFO", "commandstats")
	if err != nil {
		return nil, err
	}
	stats := map[string]commandStat{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok || name == "info" { // this program's own
			continue
		}
		calls, rest, _ := strings.Cut(rest, ",usec=")
		usec, _, _ := strings.Cut(rest, ",")
		var c commandStat
		if c.calls, err = strconv.ParseInt(calls, 10, 64); err != nil {
			return nil, fmt.Errorf("commandstats: %w", err)
		}
		n, err := strconv.ParseInt(usec, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("commandstats: %w", err)
		}
		c.spent = time.Duration(n) * time.Microsecond
		stats[name] = c
	}
	return stats, nil
}

// redisCounts counts commands.
func redisCounts(s *servertest.Server) (counts, error) {
	stats, err := redisStats(s)
	c := counts{}
	for name, stat := range stats {
		c[name] = stat.calls
	}
	return c, err
}
