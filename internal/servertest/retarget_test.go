//go:build unix

package servertest

import "testing"

func TestRetarget(t *testing.T) {
	t.Parallel()
	one, two := Redis(t), Redis(t)
	one.Redis([]string{"SET", "x", "one"})
	two.Redis([]string{"SET", "x", "two"})
	p := NewProxy(t, one.Addr)
	get := func(c *RedisConn) any {
		t.Helper()
		v, err := c.Do("GET", "x")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	dial := func() *RedisConn {
		t.Helper()
		c, err := DialRedis(p.Addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	old := dial()
	if got := get(old); got != "one" {
		t.Fatalf("x is %v before, want it from one", got)
	}
	p.Retarget(two.Addr)
	if got := get(dial()); got != "two" {
		t.Errorf("x is %v on a new connection, want it from two", got)
	}
	if got := get(old); got != "one" {
		t.Errorf("x is %v on the old connection, want it from one still", got)
	}
	p.Drop()
	if got, err := old.Do("GET", "x"); err == nil {
		t.Errorf("x is %v on a connection that was dropped", got)
	}
}
