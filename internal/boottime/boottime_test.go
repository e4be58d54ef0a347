package boottime

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestNowNeverRunsBack(t *testing.T) {
	last := Now()
	for range 1000 {
		next := Now()
		if next < last {
			t.Fatalf("Now() = %v after %v", next, last)
		}
		last = next
	}
}

// On Linux the clock is the machine's, so it agrees with what the kernel prints for everybody.
func TestNowIsTheMachines(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	uptime := time.Duration(seconds * float64(time.Second))
	if got := Now(); (got - uptime).Abs() > time.Minute {
		t.Errorf("Now() = %v, the kernel says %v", got, uptime)
	}
}

func TestIDStays(t *testing.T) {
	if got, want := ID(), ID(); got != want {
		t.Errorf("ID() = %q, then %q", got, want)
	}
	if runtime.GOOS == "linux" && len(ID()) != 36 {
		t.Errorf("ID() = %q, want a UUID (a container with a boot id of its own has none)", ID())
	}
	if ID() != "" && !Shared() {
		t.Errorf("there is an id of the boot, %q, and no clock for it", ID())
	}
}
