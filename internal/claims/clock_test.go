package claims

import (
	"testing"
	"testing/synctest"
	"time"
)

// A kernel has the clocks that a clock reads, beside Go's clock.
type kernel struct {
	slept, wall time.Duration // since the clock began; wall is the movement of the wall clock beside the time awake
	asked       int
	late        time.Duration // by which the next answer is too large
}

func (k *kernel) clock() *clock {
	c := new(clock)
	c.init(nil)
	c.moved = func() time.Duration { return k.wall }
	c.before = 0
	c.slept = func() time.Duration {
		k.asked++
		late := k.late
		k.late = 0
		return k.slept + late
	}
	return c
}

// sleep suspends the machine.
func (k *kernel) sleep(d time.Duration) { k.slept, k.wall = k.slept+d, k.wall+d }

func TestClockSeesASuspensionAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		happens func(k *kernel)
		want    time.Duration // that the clock goes on at once
		later   time.Duration // and within two milliseconds
	}{
		{"nothing", func(*kernel) {}, 0, 0},
		{"a sleep", func(k *kernel) { k.sleep(time.Hour) }, time.Hour, time.Hour},
		{"a short sleep", func(k *kernel) { k.sleep(2 * time.Millisecond) }, 2 * time.Millisecond, 2 * time.Millisecond},
		{"the wall clock is set on", func(k *kernel) { k.wall += time.Hour }, 0, 0},
		{"the wall clock is set back", func(k *kernel) { k.wall -= time.Hour }, 0, 0},
		{"a sleep, and a wall clock that was set", func(k *kernel) { k.sleep(time.Hour); k.wall -= time.Minute }, time.Hour, time.Hour},
		{"a sleep that the wall clock does not show", func(k *kernel) { k.slept += time.Hour }, 0, time.Hour},
		{"a reading that is late", func(k *kernel) { k.late = time.Minute; k.wall += time.Hour }, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var k kernel
				c := k.clock()
				for round := range 3 { // what was found out does not hide what comes after
					time.Sleep(10 * time.Millisecond)
					before := c.now()
					tt.happens(&k)
					if got := c.now() - before; got != tt.want {
						t.Errorf("round %d: the clock went on by %v at once, want %v", round, got, tt.want)
					}
					time.Sleep(2 * time.Millisecond)
					if got := c.recent() - before - 2*time.Millisecond; got != tt.later {
						t.Errorf("round %d: the clock went on by %v within two milliseconds, want %v", round, got, tt.later)
					}
				}
			})
		})
	}
}

func TestClockSeldomAsksTheKernel(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var k kernel
		c := k.clock()
		k.sleep(time.Hour)
		c.now()
		k.asked = 0
		for range 1000 {
			c.now()
		}
		if k.asked != 0 {
			t.Errorf("1,000 looks in the same millisecond asked the kernel %d times", k.asked)
		}
		for range 10 {
			time.Sleep(2 * time.Millisecond)
			c.now()
		}
		if k.asked != 10 {
			t.Errorf("a look in each of 10 other milliseconds asked the kernel %d times, want 10", k.asked)
		}
	})
}
