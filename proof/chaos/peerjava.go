//go:build unix

package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/java"
)

// A worker of their own, in java/, drives libraries for Java; make peers builds it. It gets the brief of a worker in Go and
// the constants that such a worker shares with the runner, and reports in the same way.

// redissonPeer is Redisson's lock; a fenced one gives tokens.
func redissonPeer(fenced bool) *peer {
	p := &peer{
		library: "org.redisson:redisson", store: "redis", lease: ttl, left: leftInRedis, java: true,
		set:  fmt.Sprintf("`getLock`; `lockWatchdogTimeout` %v; `tryLock` with a time to wait, and none to hold", ttl),
		loss: "`isHeldByCurrentThread` asks the server",
	}
	if fenced {
		p.set = fmt.Sprintf("`getFencedLock`; `lockWatchdogTimeout` %v; `tryLockAndGetToken` with a time to wait, and none to hold", ttl)
		p.token = "what `tryLockAndGetToken` returns"
	}
	return p
}

var curatorPeer = &peer{
	library: "org.apache.curator:curator-recipes", store: "zookeeper", lease: ttl, left: leftInZooKeeper, java: true,
	set:  fmt.Sprintf("`InterProcessMutex`; session and `connectionTimeoutMs` %v; `ExponentialBackoffRetry(1000, 3)`", ttl),
	loss: "not of a lock; a `ConnectionStateListener`: the client is connected, and has not heard LOST since it had the lock",
}

// javaFolder is the folder of that worker.
const javaFolder = "proof/chaos/java"

// javaWorker returns the command of a worker for a library in Java.
func javaWorker(b *brief) (*exec.Cmd, error) {
	program, err := java.Find(javaFolder)
	if err != nil {
		return nil, err
	}
	cmd := program.Command("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
	cmd.Env = append(os.Environ(), b.environ()...)
	for name, value := range map[string]string{
		"NAMES":    strings.Join(peerNames, ","),
		"WAITERS":  strconv.Itoa(waiters),
		"WEIGHT":   strconv.FormatInt(driver.All, 10),
		"LEASE":    strconv.FormatInt(ttl.Milliseconds(), 10),
		"PATIENCE": strconv.FormatInt(patient.Milliseconds(), 10),
		"CLOCK":    strconv.FormatInt(int64(ahead()), 10),
	} {
		cmd.Env = append(cmd.Env, "STILE_CHAOS_"+name+"="+value)
	}
	return cmd, nil
}

// ahead is how far the runner's clock is ahead of System.nanoTime. It is read once, so that all workers use the same value.
var ahead = sync.OnceValue(func() time.Duration {
	best, narrow := time.Duration(0), time.Duration(math.MaxInt64)
	for range 100 {
		var ts unix.Timespec
		before := boottime.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			continue
		}
		if wide := boottime.Now() - before; wide < narrow {
			best, narrow = before+wide/2-time.Duration(ts.Nano()), wide
		}
	}
	return best
})

// javaVersion returns the version of a library's file beside the worker, and of Java.
func javaVersion(library string) string {
	program, err := java.Find(javaFolder)
	if err != nil {
		return ""
	}
	version := program.Version(library)
	if of := java.Version(); version != "" && of != "" {
		version += ", Java " + of
	}
	return version
}
