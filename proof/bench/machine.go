//go:build unix

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"golang.org/x/sys/unix"
)

// look collects what readers need to know about this machine and this program.
func look(a *arena, s *servertest.Server) *facts {
	f := &facts{
		when: time.Now(), cpu: processor(), cores: runtime.NumCPU(), system: kernel(), golang: runtime.Version(),
		server: a.version(s),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, path := range a.peers {
			for _, m := range info.Deps {
				if m.Path == path {
					f.versions = append(f.versions, fmt.Sprintf("%s %s", strings.TrimPrefix(path, "github.com/"), m.Version))
				}
			}
		}
	}
	f.versions = append(f.versions, javaVersions(a.libraries)...)
	f.load[0] = loadAverage()
	return f
}

// processor returns the name of the processor (Linux only).
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// loadAverage returns the machine's load of the last minute (Linux only), or 0.
func loadAverage() (load float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &load) //nolint:errcheck // 0 is an answer too
	return load
}
