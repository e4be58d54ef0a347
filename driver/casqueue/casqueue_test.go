//go:build unix

package casqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/casqueue"
	"github.com/stilelock/stile/driver/drivertest"
)

func inFiles(t testing.TB) drivertest.Store {
	f := files{t.TempDir()}
	return drivertest.Store{Open: func(testing.TB) driver.Driver { return casqueue.New(f) }, Slack: 2 * time.Second}
}

func TestContractInFiles(t *testing.T) { drivertest.Run(t, inFiles(t)) }

func TestModelInFiles(t *testing.T) {
	for seed := range uint64(4) {
		drivertest.Model(t, inFiles(t), seed, 300)
	}
}

// counted counts the swaps of a store, and remembers the largest value.
type counted struct {
	casqueue.Store
	asked, done, largest atomic.Int64
}

func (c *counted) Swap(ctx context.Context, name string, was casqueue.Version, text []byte) (bool, error) {
	c.asked.Add(1)
	swapped, err := c.Store.Swap(ctx, name, was, text)
	if swapped {
		c.done.Add(1)
		for size := int64(len(text)); ; {
			if is := c.largest.Load(); size <= is || c.largest.CompareAndSwap(is, size) {
				break
			}
		}
	}
	return swapped, err
}

func claim(name string, i int) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: fmt.Sprintf("%026d", i), Client: fmt.Sprintf("%026d", i), Weight: driver.All, Capacity: driver.All,
		TTL: time.Hour, Wait: time.Hour, Record: `{"host":"web-17","pid":4711}`,
	}
}

// TestHerd lets independent clients enter one name at once. Every client gets in, with one successful swap each.
func TestHerd(t *testing.T) {
	const herd = 100
	s := &counted{Store: files{t.TempDir()}}
	entered(t, s, herd)
	if s.done.Load() != herd {
		t.Errorf("%d swaps for %d claims", s.done.Load(), herd)
	}
}

// entered lets herd clients enter one name at once, and checks that their tickets are distinct.
func entered(t testing.TB, s casqueue.Store, herd int) {
	var (
		all     sync.WaitGroup
		tickets sync.Map
	)
	for i := range herd {
		d := casqueue.New(s)
		all.Go(func() {
			p, err := d.Enter(t.Context(), claim("herd", i))
			if _, twice := tickets.LoadOrStore(p.Ticket, true); err != nil || twice {
				t.Errorf("enter = %+v, %v; its ticket was given before: %v", p, err, twice)
			}
		})
	}
	all.Wait()
}

// BenchmarkHerd measures the swaps per claim when many clients enter at once, and the size of the largest value.
func BenchmarkHerd(b *testing.B) {
	for _, herd := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(herd), func(b *testing.B) {
			for b.Loop() {
				s := &counted{Store: files{b.TempDir()}}
				entered(b, s, herd)
				b.ReportMetric(float64(s.asked.Load())/float64(herd), "swaps/claim")
				b.ReportMetric(float64(s.largest.Load()), "bytes")
			}
		})
	}
}

// lossy loses the answer to a swap, before or after the swap is made, or delays the swap until the test makes it.
type lossy struct {
	casqueue.Store
	fault atomic.Int32 // the fault of the next swap
	late  func() (bool, error)
}

const (
	lostBefore = iota + 1
	lostAfter
	delayed
)

var errLost = errors.New("the answer was lost")

func (l *lossy) Swap(ctx context.Context, name string, was casqueue.Version, text []byte) (bool, error) {
	switch l.fault.Swap(0) {
	case lostBefore:
		return false, errLost
	case lostAfter:
		_, err := l.Store.Swap(ctx, name, was, text)
		return false, errors.Join(errLost, err)
	case delayed:
		l.late = func() (bool, error) { return l.Store.Swap(context.WithoutCancel(ctx), name, was, text) }
		return false, errLost
	}
	return l.Store.Swap(ctx, name, was, text)
}

// TestLostAnswers checks that a lost answer leaves the outcome unknown, and that a second Enter finds the same claim.
func TestLostAnswers(t *testing.T) {
	for _, fault := range []int32{lostBefore, lostAfter, delayed} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			l := &lossy{Store: files{t.TempDir()}}
			d := casqueue.New(l)
			c := claim("lost", 1)
			l.fault.Store(fault)
			if _, err := d.Enter(t.Context(), c); driver.OutcomeOf(err) != driver.OutcomeUnknown || !errors.Is(err, errLost) {
				t.Fatalf("enter = %v, which is %v", err, driver.OutcomeOf(err))
			}
			p, err := d.Enter(t.Context(), c)
			if err != nil || !p.Holds || p.Ticket != 1 {
				t.Fatalf("enter again = %+v, %v", p, err)
			}
			if l.late != nil {
				if swapped, err := l.late(); swapped || err != nil {
					t.Errorf("the late swap = %v, %v; want that it finds another version", swapped, err)
				}
			}
			if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Errorf("leave = %v", err)
			}
			if list, err := d.List(t.Context(), &driver.Query{}); err != nil || len(list) != 0 {
				t.Errorf("the store has %+v, %v", list, err)
			}
		})
	}
}

// TestForeignValue checks that the driver neither uses nor changes the value of another program.
func TestForeignValue(t *testing.T) {
	f := files{t.TempDir()}
	for _, text := range []string{
		"", "5", "{}", `{"stile":2,"name":"x"}`, `{"stile":1,"name":"y"}`, `{"stile":1,"name":"x","claims":[{}]}`,
	} {
		if _, err := f.Swap(t.Context(), "x", version(t, f), []byte(text)); err != nil {
			t.Fatal(err)
		}
		before := version(t, f)
		if _, err := casqueue.New(f).Enter(t.Context(), claim("x", 1)); !errors.Is(err, driver.ErrForeign) {
			t.Errorf("enter on the value %q = %v; want ErrForeign", text, err)
		}
		if after := version(t, f); after != before {
			t.Errorf("the value %q is at version %s, and was at %s", text, after, before)
		}
	}
}

func version(t *testing.T, f files) casqueue.Version {
	t.Helper()
	v, err := f.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return v.Version
}

// TestPage checks that the example in the documentation is the tested one.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/bring-your-own-store.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("files_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(code), "package casqueue_test\n")
	example = "package files\n" + example
	if !strings.Contains(string(page), "```go\n"+example+"```") {
		t.Error("docs/howto/bring-your-own-store.md does not have the code of files_test.go")
	}
	if lines := strings.Count(example, "\n"); lines >= 150 {
		t.Errorf("the example has %d lines; the page promises fewer than 150", lines)
	}
}

func TestConcurrentInFiles(t *testing.T) { drivertest.Concurrent(t, inFiles(t), 1, 10) }
