package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

// A notes keeps what it gets in words, and of a class that begins only the class.
type notes struct{ list []string }

func (n *notes) add(m *Metric, class, label string, value float64) {
	if m.Label == "" != (label == "") || label != "" && !slices.Contains(m.Values, label) {
		n.list = append(n.list, fmt.Sprintf("%s must not have the label %q", m.Name, label))
	}
	if begin := "begin " + class; value == 0 && m.Kind != Histogram {
		if !slices.Contains(n.list, begin) {
			n.list = append(n.list, begin)
		}
		return
	}
	n.list = append(n.list, strings.TrimSpace(fmt.Sprintf("%s %g %s", strings.TrimPrefix(m.Name, "stile."), value, label)))
}

// lost is an event of a lease that was lost.
func lost(r stile.Reason) stile.Event {
	return stile.Event{Kind: stile.EventLost, Name: "x", Token: 1, Held: time.Second, Err: &stile.LostError{Reason: r}}
}

func TestEvents(t *testing.T) {
	acquired := stile.Event{Kind: stile.EventAcquired, Name: "x", Token: 1, Waited: time.Second}
	released := stile.Event{Kind: stile.EventReleased, Name: "x", Token: 1, Held: 2 * time.Second}
	for _, tt := range []struct {
		name   string
		events []stile.Event
		want   []string
	}{
		{"acquired and released", []stile.Event{acquired, released}, []string{
			"lock.acquisitions 1 store", "lock.wait.duration 1", "lock.held 1",
			"lock.releases 1 confirmed", "lock.hold.duration 2", "lock.held -1",
		}},
		{"inside the process", []stile.Event{{Kind: stile.EventAcquired, Local: true}}, []string{
			"lock.acquisitions 1 process", "lock.wait.duration 0", "lock.held 1",
		}},
		{"attached, and so not begun here", []stile.Event{released}, []string{"lock.releases 1 confirmed", "lock.hold.duration 2"}},
		{"released twice", []stile.Event{acquired, released, released}, []string{
			"lock.acquisitions 1 store", "lock.wait.duration 1", "lock.held 1",
			"lock.releases 1 confirmed", "lock.hold.duration 2", "lock.held -1", "lock.releases 1 confirmed", "lock.hold.duration 2",
		}},
		{"release of unknown outcome", []stile.Event{{Kind: stile.EventReleased, Err: stile.ErrUnknown}}, []string{
			"lock.releases 1 unknown", "lock.hold.duration 0",
		}},
		{"lost for a reason", []stile.Event{lost(stile.ReasonSuspended)}, []string{"lock.losses 1 suspended", "lock.hold.duration 1"}},
		{"lost for no reason", []stile.Event{{Kind: stile.EventLost, Err: stile.ErrLost}}, []string{"lock.losses 1 unknown", "lock.hold.duration 0"}},
		{"renewed in time", []stile.Event{{Kind: stile.EventRenewed, Margin: 1500 * time.Millisecond}}, []string{"lock.renewal.margin 1.5"}},
		{"renewed late", []stile.Event{{Kind: stile.EventRenewed, Margin: 1499 * time.Millisecond}}, []string{
			"lock.renewal.margin 1.499", "lock.near_misses 1",
		}},
		{"renewed when its turn came, and then late", []stile.Event{
			{Kind: stile.EventWaiting, Name: "x", Token: 7}, {Kind: stile.EventRenewed, Name: "x", Token: 7, Margin: 1},
			{Kind: stile.EventRenewed, Name: "x", Token: 7, Margin: time.Second},
		}, []string{"lock.waits 1", "lock.renewal.margin 1", "lock.near_misses 1"}},
		{"others", []stile.Event{{Kind: stile.EventWaiting}, {Kind: stile.EventJeopardy}, {Kind: stile.EventLeaked}, {Kind: stile.EventAsked}},
			[]string{"lock.waits 1", "lock.jeopardies 1", "lock.leaks 1", "lock.asks 1"}},
		{"dropped", []stile.Event{{Kind: stile.EventAsked, Dropped: 3}}, []string{"observer.dropped 3", "lock.asks 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n notes
			observe := New(n.add, Options{}).Observer()
			for _, e := range tt.events {
				observe(e)
			}
			if want := append([]string{"begin "}, tt.want...); !slices.Equal(n.list, want) {
				t.Errorf("got  %q\nwant %q", n.list, want)
			}
		})
	}
}

// Each reason for the loss of a lease has a word of its own, the same as in the package.
func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := stile.Reason(1); !strings.HasPrefix(r.String(), "reason"); r++ {
		word := reasonOf(&stile.LostError{Reason: r})
		if word == unknown || seen[word] {
			t.Errorf("reason %q is %q", r, word)
		}
		seen[word] = true
	}
	if len(seen) != len(reasons)-1 {
		t.Errorf("%d reasons have words, of which there are %d", len(seen), len(reasons)-1)
	}
	if got := reasonOf(&stile.LostError{Reason: stile.Reason(len(reasons))}); got != unknown {
		t.Errorf("a reason that is not there is %q", got)
	}
}

// A class begins with all counters and gauges at zero, for each of their labels' values, and with no histogram.
func TestClassBeginsAtZero(t *testing.T) {
	begun := map[string]float64{}
	New(func(m *Metric, class, label string, value float64) { begun[m.Name+"/"+class+"/"+label] = value }, Options{})
	for _, m := range All {
		values := m.Values
		if len(values) == 0 {
			values = []string{""}
		}
		for _, value := range values {
			got, is := begun[m.Name+"//"+value]
			if is != (m.Kind != Histogram) || got != 0 {
				t.Errorf("%s, label %q: %g (%v)", m.Name, value, got, is)
			}
		}
	}
}

// A function that gives each name a class of its own does not make as many series, and two clients share the classes.
func TestClasses(t *testing.T) {
	var n notes
	m := New(n.add, Options{Class: func(name string) string { return name }})
	for _, observe := range []stile.Observer{m.Observer(), m.Observer()} {
		for i := range 3 * maxClasses {
			observe(stile.Event{Kind: stile.EventAsked, Name: fmt.Sprintf("order/%d\xff", i)})
		}
	}
	var begun []string
	for _, line := range n.list {
		if class, ok := strings.CutPrefix(line, "begin "); ok {
			begun = append(begun, class)
		}
	}
	if len(begun) != maxClasses+1 || begun[0] != "order/0\uFFFD" || begun[maxClasses] != other {
		t.Errorf("%d classes began: %q", len(begun), begun)
	}
}

// What is counted keeps its class, even if the function gives another one later.
func TestHeldKeepsItsClass(t *testing.T) {
	classes := []string{"one", "two"}
	sink := &classed{}
	observe := New(sink.add, Options{Class: func(string) (class string) {
		class, classes = classes[0], classes[1:]
		return class
	}}).Observer()
	observe(stile.Event{Kind: stile.EventAcquired, Name: "x", Token: 1})
	observe(lost(stile.ReasonExpired))
	if want := []string{"one 1", "one -1"}; !slices.Equal(sink.held, want) {
		t.Errorf("held: %q, want %q", sink.held, want)
	}
}

// A classed records the classes of held leases.
type classed struct{ held []string }

func (c *classed) add(m *Metric, class, _ string, value float64) {
	if m == held && value != 0 {
		c.held = append(c.held, fmt.Sprintf("%s %g", class, value))
	}
}
