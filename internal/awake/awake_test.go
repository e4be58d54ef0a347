//go:build unix

package awake_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/awake"
)

// What is counted lasts as long in a process that runs, and longer by the time for which one is stopped.
func TestFor(t *testing.T) {
	const length, stop, variable = 2 * time.Second, 500 * time.Millisecond, "STILE_TEST_AWAKE"
	if os.Getenv(variable) != "" { // this is the process that is stopped
		start := time.Now()
		over := awake.For(length)
		fmt.Println("counts")
		<-over
		fmt.Println(time.Since(start))
		return
	}
	awake.Lane(t)
	start := time.Now()
	over := awake.For(stop)
	for !awake.Over(over) {
		<-over
	}
	if took := time.Since(start); took < stop {
		t.Errorf("%v are over after %v", stop, took)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFor$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	if line, err := in.ReadString('\n'); line != "counts\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	stopped := time.Now()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * stop)
	stands := time.Since(stopped) - stop // it stopped within half of the time
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, _ := in.ReadString('\n')
	if took, err := time.ParseDuration(strings.TrimSpace(line)); err != nil || took < length+stands-20*time.Millisecond {
		t.Errorf("%v were over after %q in a process that stood still for %v; want the sum", length, line, stands)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
