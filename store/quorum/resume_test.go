package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// A process that knows only a claim's own id and ticket takes up a claim that has other ids on some nodes, and lets it go.
func TestDrawnIDsAreResumed(t *testing.T) {
	for drawn := 1; drawn <= 3; drawn++ {
		synctest.Test(t, func(t *testing.T) {
			list := servers(3)
			d, members := open(t, list, &quorum.Options{Timeout: 100 * time.Millisecond})
			defer d.Close()
			var nodes []*memory.Driver
			for i, m := range members {
				if i < drawn {
					nodes = append(nodes, m.Driver)
				} else {
					m.SetLink(memory.Refused)
				}
			}
			c := claim("drawn", "claim")
			lateOn(t, d, nodes, c)
			for _, m := range members {
				m.SetLink(memory.Up)
				m.Heal()
			}
			pass(2 * time.Second) // the late requests have arrived
			holds(t, d, c)
			synctest.Wait()
			other := 0
			for _, s := range list {
				for id := range s.entries {
					if id == "claim-1" {
						other++
					}
				}
			}
			if other != drawn {
				t.Fatalf("%d nodes know the claim by another id; want %d", other, drawn)
			}
			next, _ := open(t, list, nil)
			defer next.Close()
			resumed := *c
			resumed.Client, resumed.Record = "another", ""
			for range 3 {
				if a := next.Renew(t.Context(), []*driver.Claim{&resumed})[0]; a.Err != nil || a.TTL <= 0 {
					t.Fatalf("renewal by another process, with %d ids drawn = %+v; want a lease", drawn, a)
				}
				synctest.Wait()
			}
			if p, err := next.Enter(t.Context(), claim("drawn", fmt.Sprint("other", drawn))); err != nil || p.Holds {
				t.Errorf("enter of another = %+v, %v; want it to wait", p, err)
			}
			leaves(t, next, &resumed)
			synctest.Wait()
			if a := next.Renew(t.Context(), []*driver.Claim{&resumed})[0]; !errors.Is(a.Err, driver.ErrGone) {
				t.Errorf("renewal after it left = %+v; want ErrGone", a)
			}
			holds(t, d, claim("drawn", "last"))
		})
	}
}

// A claim that leaves while it is taken up does not hold afterwards: nothing enters it again.
func TestLeaveWhileResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := servers(3)
		first, _ := open(t, list, nil)
		defer first.Close()
		c := claim("leaving", "claim")
		holds(t, first, c)
		synctest.Wait()
		next, members := open(t, list, nil)
		defer next.Close()
		for _, m := range members {
			m.Inject(memory.Fault{Verb: memory.Renew, After: 300 * time.Millisecond})
			m.Inject(memory.Fault{Verb: memory.Leave, Before: 300 * time.Millisecond})
		}
		answer := make(chan error, 1)
		go func() { answer <- next.Renew(t.Context(), []*driver.Claim{c})[0].Err }()
		synctest.Wait()
		if err := next.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
			t.Errorf("leave = %v; want nil", err)
		}
		if err := <-answer; err == nil {
			t.Error("renewal of a claim that left meanwhile = nil; want an error")
		}
		pass(c.TTL / 2)
		synctest.Wait()
		if n := quorum.Known(next); n != 0 {
			t.Errorf("the driver knows of %d claims after it left; want none", n)
		}
		holds(t, first, claim("leaving", "last"))
	})
}

// A process that takes a claim up a second time does not undo what another process has changed in between.
func TestResumedAgain(t *testing.T) {
	t.Parallel()
	list := servers(3)
	first, _ := open(t, list, nil)
	second, _ := open(t, list, nil)
	c := claim("again", "claim")
	holds(t, first, c)
	renew := func(d driver.Driver, c driver.Claim, to string) error {
		if to != "" {
			c.Amend = &driver.Amendment{Record: to}
		}
		return d.Renew(t.Context(), []*driver.Claim{&c})[0].Err
	}
	blank := *c
	blank.Record = "" // as a process has it that takes the claim up
	if err := renew(first, *c, "one"); err != nil {
		t.Fatalf("amendment = %v; want nil", err)
	}
	if err := renew(second, blank, ""); err != nil {
		t.Fatalf("renewal by another process = %v; want nil", err)
	}
	known := *c
	known.Record = "one"
	if err := renew(second, known, "two"); err != nil {
		t.Fatalf("amendment by another process = %v; want nil", err)
	}
	for range 3 {
		if err := renew(first, blank, ""); err != nil {
			t.Fatalf("renewal by the first process = %v; want nil", err)
		}
	}
	is, ok := errors.AsType[*driver.RecordError](renew(first, blank, "three"))
	if !ok || is.Have != "two" {
		t.Errorf("amendment of an unknown record = %+v; want to be told %q", is, "two")
	}
	known.Record = "two"
	if err := renew(first, known, "three"); err != nil {
		t.Errorf("amendment = %v; want nil", err)
	}
	leaves(t, first, c)
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		record  string
		version int64
		want    string
	}{
		{"", 0, ""},
		{"plain", 0, "plain"},
		{`{"value":"x"}`, 12, "\t12\n" + `{"value":"x"}`},
		{"two\nlines", 3, "\t3\ntwo\nlines"},
		{"\t5\nlooks like one", 0, "\t0\n\t5\nlooks like one"},
		{"\t", 1<<53 - 1, "\t9007199254740991\n\t"},
	} {
		got := quorum.WithVersion(test.record, test.version)
		record, version := quorum.CutVersion(got)
		if got != test.want || record != test.record || version != test.version {
			t.Errorf("WithVersion(%q, %d) = %q, which is %q in version %d; want %q",
				test.record, test.version, got, record, version, test.want)
		}
	}
	for _, text := range []string{"\t", "\tx\nrecord", "\t12", "\n", "12\nrecord"} {
		if record, version := quorum.CutVersion(text); record != text || version != 0 {
			t.Errorf("CutVersion(%q) = %q in version %d; want it as it is, in version 0", text, record, version)
		}
	}
}
