//go:build unix

package awake

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process that dies leaves the lane to the next one, and until then the next one waits.
func TestLaneIsLeft(t *testing.T) {
	const variable = "STILE_TEST_LANE"
	if path := os.Getenv(variable); path != "" { // this is the process that dies
		if _, err := enter(path, time.Minute); err != nil {
			t.Fatal(err)
		}
		fmt.Println("entered")
		select {}
	}
	path := filepath.Join(t.TempDir(), "lane")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLaneIsLeft$")
	cmd.Env = append(os.Environ(), variable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "entered\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	if free(t, path) {
		t.Error("the lane is free while a process is in it")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	leave, err := enter(path, time.Minute)
	if err != nil || leave == nil {
		t.Fatalf("enter once the process is killed = %v; want the lane", err)
	}
	_ = cmd.Wait() // it was killed
	if free(t, path) {
		t.Error("the lane is free while this process is in it")
	}
	if leave, err := enter(path, step); leave != nil || err != nil {
		t.Errorf("enter a lane that is taken, within %v = %v; want that it is not had", step, err)
	}
	leave()
	if !free(t, path) {
		t.Error("the lane that was left is not free")
	}
}

// The lane is left once its test ends.
func TestLane(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path := filepath.Join(os.TempDir(), "stile-lane.lock")
	t.Run("one", func(t *testing.T) {
		Lane(t)
		Lane(t)
		t.Run("within", func(t *testing.T) { Lane(t) })
		if free(t, path) {
			t.Error("the lane is free while a test is in it")
		}
	})
	t.Run("next", func(t *testing.T) { Lane(t) })
	if !free(t, path) {
		t.Error("the lane is taken after its tests")
	}
}

// free reports whether nobody is in the lane of a file.
func free(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err == nil
}
