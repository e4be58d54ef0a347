package guard

import (
	"errors"
	"github.com/stilelock/stile/internal/awake"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/boottime"
)

// An alarm that is closed, be it twice, leaves neither a descriptor nor a goroutine behind, whether it went off or not.
func TestAlarmLeavesNothing(t *testing.T) {
	held := func() (descriptors, goroutines int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list), runtime.NumGoroutine()
	}
	use := func(at time.Duration) {
		a, err := NewAlarm()
		if err != nil {
			t.Fatal(err)
		}
		a.Set(boottime.Now() + at)
		if at <= 0 {
			<-a.C
		}
		a.Close()
		a.Close()
	}
	use(0) // the runtime keeps descriptors of its own after the first
	descriptors, goroutines := held()
	for range 20 {
		use(0)
		use(time.Hour)
	}
	// A goroutine that has closed its channel is counted until it has returned.
	for over := awake.For(time.Minute); runtime.NumGoroutine() > goroutines && !awake.Over(over); {
		runtime.Gosched()
	}
	if d, g := held(); d > descriptors || g > goroutines {
		t.Errorf("after 40 alarms there are %d descriptors and %d goroutines, want %d and %d", d, g, descriptors, goroutines)
	}
}

// An alarm for which no descriptor is left is an error.
func TestNoDescriptorForAlarm(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err := NewAlarm()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v, want %v", err, syscall.EMFILE)
	}
}
