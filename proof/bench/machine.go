//go:build unix

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/internal/system"
)

// look collects what readers need to know about this machine and this program.
func look(a *arena, s *servertest.Server) *facts {
	f := &facts{
		when: time.Now(), cpu: system.Processor(), cores: runtime.NumCPU(), system: system.Kernel(), golang: runtime.Version(),
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
	f.load[0] = system.Load()
	return f
}
