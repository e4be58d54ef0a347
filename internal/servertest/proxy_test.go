//go:build unix

package servertest

import (
	"testing"
	"time"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	s := Redis(t)
	p := NewProxy(t, s.Addr)
	direct, err := DialRedis(s.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	value := func() any {
		t.Helper()
		v, err := direct.Do("GET", "x")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	set := func(v string) <-chan error {
		t.Helper()
		c, err := DialRedis(p.Addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			defer c.Close()
			_, err := c.Do("SET", "x", v)
			done <- err
		}()
		return done
	}
	if err := <-set("passed"); err != nil || value() != "passed" {
		t.Fatalf("set = %v, and x is %v; want it passed on", err, value())
	}

	p.Freeze(false, true)
	done := set("reply lost")
	Until(t, "the request is applied", func() bool { return value() == "reply lost" })
	select {
	case err := <-done:
		t.Fatalf("set = %v; want no answer while replies are frozen", err)
	case <-time.After(20 * time.Millisecond):
	}
	p.Drop()
	if err := <-done; err == nil {
		t.Error("set = nil after its connection was dropped; want an error")
	}

	p.Freeze(true, false)
	Until(t, "nothing is held back", func() bool { return !p.Holds() })
	done = set("late")
	Until(t, "the request is held back", p.Holds)
	select {
	case err := <-done:
		t.Fatalf("set = %v; want no answer while requests are frozen", err)
	default:
	}
	if value() != "reply lost" {
		t.Errorf("x is %v while requests are frozen", value())
	}
	p.Mend()
	if err := <-done; err != nil || value() != "late" {
		t.Errorf("set = %v, and x is %v; want the late request applied", err, value())
	}

	p.Cut()
	if c, err := DialRedis(p.Addr, nil); err == nil {
		if _, err := c.Do("PING"); err == nil {
			t.Error("a cut proxy passes requests on")
		}
		c.Close()
	}
	p.Mend()
	if err := <-set("mended"); err != nil {
		t.Errorf("set = %v after mending; want nil", err)
	}
}

// Hold counts the requests that it lets pass, and the ones that it holds back.
func TestProxyHolds(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Redis(t).Addr)
	c, err := DialRedis(p.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p.Hold(2)
	for i := range 2 {
		if _, err := c.Do("INCR", "n"); err != nil || p.Held() != 0 {
			t.Errorf("request %d = %v, and %d are held back; want it passed on", i, err, p.Held())
		}
	}
	third := make(chan any, 1)
	go func() {
		n, _ := c.Do("INCR", "n")
		third <- n
	}()
	Until(t, "the third request is held back", func() bool { return p.Held() == 1 })
	p.Pass()
	other, err := DialRedis(p.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if n, err := other.Do("GET", "n"); err != nil || n != "2" {
		t.Errorf("n is %v, %v on another connection; want 2", n, err)
	}
	p.Arrive()
	if n := <-third; n != int64(3) {
		t.Errorf("the third request = %v; want 3", n)
	}
	Until(t, "nothing is held back", func() bool { return p.Held() == 0 })
}
