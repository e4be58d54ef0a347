//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// TestJavaWorker checks the settings that the Java worker gets, the path of its program, and the error if nobody has built
// it.
func TestJavaWorker(t *testing.T) {
	t.Chdir(t.TempDir())
	b := &brief{url: "127.0.0.1:1,127.0.0.1:2", seed: 1003, peer: "curator", register: "127.0.0.1:3"}
	if _, err := program(b); err == nil || !strings.Contains(err.Error(), "proof/chaos/java builds it") {
		t.Errorf("a worker that is not built: %v", err)
	}
	lib := "proof/chaos/java/target/lib"
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proof/chaos/java/target/done", lib + "/curator-recipes-5.9.0.jar", lib + "/curator-client-5.8.0.jar"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(lib)
	cmd, err := program(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"STILE_CHAOS_URL=127.0.0.1:1,127.0.0.1:2", "STILE_CHAOS_SEED=1003", "STILE_CHAOS_PEER=curator", "STILE_CHAOS_REGISTER=127.0.0.1:3",
		"STILE_CHAOS_NAMES=chaos/one,chaos/two", "STILE_CHAOS_WAITERS=4", "STILE_CHAOS_WEIGHT=2147483647", "STILE_CHAOS_LEASE=3000",
		"STILE_CHAOS_PATIENCE=30000",
	} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("the worker is not told %s", want)
		}
	}
	if path := filepath.Join("chaos", "java", "target", "classes"); filepath.Base(cmd.Args[0]) != "java" || !strings.Contains(strings.Join(cmd.Args, " "), path) {
		t.Errorf("the command is %q", cmd.Args)
	}
	if got := javaVersion(curatorPeer.library); !strings.HasPrefix(got, "5.9.0") {
		t.Errorf("the version is %q, want that of the file", got)
	}
	if first := ahead(); first != ahead() || first > boottime.Now() || first < -time.Second {
		t.Errorf("the clock is ahead by %v", first)
	}
}
