package claims

import (
	"context"
	"testing"
	"time"
)

// BenchmarkDerived measures what it costs a driver to bound a request by a time of its own.
func BenchmarkDerived(b *testing.B) {
	var k clock
	k.init(nil)
	b.ReportAllocs()
	for b.Loop() {
		c := &call{}
		c.begin(&k, k.recent()+time.Minute, nil)
		_, cancel := context.WithTimeout(c, time.Second)
		cancel()
		c.finish()
	}
}

// A context that is derived from a request's ends with it, and is forgotten when it ends before.
func TestDerivedContexts(t *testing.T) {
	var k clock
	k.init(nil)
	c := &call{}
	c.begin(&k, k.recent()+time.Minute, nil)
	first, cancelFirst := context.WithCancel(c)
	second, cancelSecond := context.WithCancel(c)
	third, cancelThird := context.WithCancel(c)
	defer cancelFirst()
	defer cancelThird()
	if cancelSecond(); len(c.afters) != 2 {
		t.Errorf("%d contexts are to be told; want 2", len(c.afters))
	}
	if <-second.Done(); first.Err() != nil || third.Err() != nil {
		t.Errorf("the others ended with the second: %v, %v", first.Err(), third.Err())
	}
	c.finish()
	<-first.Done()
	<-third.Done()
}
