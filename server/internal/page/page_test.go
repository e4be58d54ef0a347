package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// A shelf is a store whose answer a test sets. It notes when it was read.
type shelf struct {
	list  []driver.Listing
	err   error
	takes time.Duration
	reads []time.Time
}

func (s *shelf) read(ctx context.Context) ([]driver.Listing, error) {
	s.reads = append(s.reads, time.Now())
	if s.takes > 0 {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.list, s.err
}

func (s *shelf) page() *Page {
	return New(s.read, func(ticket int64) string { return fmt.Sprint("t", ticket) })
}

func all(string) bool { return true }

// holder and waiter are claims for tests.
func holder(ticket int64, left time.Duration) driver.ClaimInfo {
	return driver.ClaimInfo{Ticket: ticket, Weight: driver.All, Holds: true, Remaining: left, Record: `{"owner":"a","ttl":15000}`}
}

func waiter(ticket int64, record string) driver.ClaimInfo {
	return driver.ClaimInfo{Ticket: ticket, Weight: driver.All, Record: record}
}

func lock(name string, claims ...driver.ClaimInfo) driver.Listing {
	return driver.Listing{Name: name, Capacity: driver.All, Claims: claims}
}

// next returns a viewer's next event, and its queues by name.
func next(t *testing.T, v *Viewer, reads func(string) bool) (*Event, map[string]*queue) {
	t.Helper()
	if err := v.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := v.Event(reads)
	queues := map[string]*queue{}
	for _, c := range e.Queues {
		q := &queue{}
		if err := json.Unmarshal(c.Queue, q); err != nil {
			t.Fatal(err)
		}
		queues[q.Name] = q
	}
	return e, queues
}

// However many look, the store is read once a second; and not at all while nobody looks.
func TestOneListASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		p := s.page()
		for range 3 {
			var viewers []*Viewer
			for range 50 {
				viewers = append(viewers, p.Open())
			}
			for range 10 {
				for _, v := range viewers {
					next(t, v, all)
				}
			}
			for _, v := range viewers {
				v.Close()
			}
			n := len(s.reads)
			time.Sleep(time.Hour)
			if len(s.reads) != n {
				t.Errorf("read %d times while nobody looked", len(s.reads)-n)
			}
		}
		if len(s.reads) != 30 {
			t.Errorf("read %d times for three times ten snapshots; want 30", len(s.reads))
		}
		for i := range s.reads[1:] {
			if d := s.reads[i+1].Sub(s.reads[i]); d < second {
				t.Errorf("read again after %v", d)
			}
		}
	})
}

// Viewers who come and go, as browsers do that load the page again and again, do not have the store read more often.
func TestViewersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{takes: 100 * time.Millisecond}
		p := s.page()
		for range 1000 {
			v := p.Open()
			if err := v.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			v.Close()
			time.Sleep(10 * time.Millisecond)
		}
		for i := range s.reads[1:] {
			if d := s.reads[i+1].Sub(s.reads[i]); d < second {
				t.Errorf("read again after %v", d)
			}
		}
		if len(s.reads) < 5 {
			t.Errorf("read %d times in 10 s", len(s.reads))
		}
	})
}

// A viewer whose snapshot is old waits for a new one. A slow store rests as long as it took, a silent one does not keep the
// viewer, and one that fails is shown as it was last.
func TestStoreIsSlowOrFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{list: []driver.Listing{lock("a", holder(1, time.Minute))}, takes: 3 * time.Second}
		p := s.page()
		v := p.Open()
		next(t, v, all)
		next(t, v, all)
		if d := s.reads[1].Sub(s.reads[0]); d != 6*time.Second {
			t.Errorf("a store that takes 3 s was read again after %v; want 6 s", d)
		}
		s.takes, s.err = 0, errors.New("it is away")
		if e, q := next(t, v, all); e.Failed != "it is away" || len(q)+len(e.Gone) != 0 || e.Now-e.At < 6000 {
			t.Errorf("a store that fails is shown as %+v; want what was there, its age and the failure", e)
		}
		s.err = nil
		if e, _ := next(t, v, all); e.Failed != "" || e.Now != e.At {
			t.Errorf("after the failure there is %+v", e)
		}
		v.Close()
		time.Sleep(time.Minute)
		s.list, s.takes = nil, time.Hour
		v = p.Open()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := v.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an old snapshot is shown as a new one: %v", err)
		}
		if e, _ := next(t, v, all); e.Failed != context.DeadlineExceeded.Error() {
			t.Errorf("a store that is silent gives %+v", e)
		}
		v.Close()
	})
}

// A viewer gets what changed: whole queues, or only their leases if nothing else did.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{list: []driver.Listing{lock("a", holder(1, 9*time.Second), waiter(2, "")), lock("b", holder(3, 0))}}
		p := s.page()
		v := p.Open()
		defer v.Close()
		e, q := next(t, v, all)
		if !e.Whole || len(q) != 2 || q["a"].Holds != 1 || q["a"].Waits != 1 || q["a"].Claims[0].Token != "t1" ||
			q["a"].Claims[0].TTL != 15000 || q["a"].Claims[0].Until != 9000 || q["b"].Claims[0].Until != 0 {
			t.Fatalf("the first event is %+v", e)
		}
		s.list[0].Claims[0].Remaining = 8 * time.Second // as it was, a second later
		s.list[0].Claims[0].Since, s.list[0].Claims[1].Since, s.list[1].Claims[0].Since = time.Second, time.Second, time.Second
		if e, _ := next(t, v, all); e.Whole || len(e.Queues)+len(e.Leases)+len(e.Gone) != 0 {
			t.Errorf("without a change there is %+v", e)
		}
		s.list[0].Claims[0].Remaining = 15 * time.Second
		if e, _ := next(t, v, all); len(e.Queues)+len(e.Gone) != 0 || len(e.Leases) != 1 || e.Leases[0].Name != "a" ||
			!slices.Equal(e.Leases[0].Until, []int64{17000, 0}) {
			t.Errorf("a renewal gives %+v", e)
		}
		late := p.Open()
		defer late.Close()
		if _, q := next(t, late, all); q["a"].Claims[0].Until != 17000 {
			t.Errorf("a later viewer gets %+v", q["a"].Claims[0])
		}
		s.list[0].Claims = s.list[0].Claims[1:]
		s.list[0].Claims[0].Holds = true
		s.list = s.list[:1]
		if e, q := next(t, v, all); len(e.Gone) != 1 || e.Gone[0] != "b" || len(q) != 1 || q["a"].Claims[0].Held != e.At || q["a"].Ended != 1 {
			t.Errorf("a hand-over and an unlock give %+v, %+v", e, q["a"])
		}
	})
}

// Each viewer gets what it may read, also of what claims say of other names, and also when its rights change.
func TestRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{list: []driver.Listing{
			lock("ci/a", holder(1, 0), waiter(2, `{"owner":"b","within":"7 prod/x\n8 ci/c"}`)), lock("prod/x", holder(7, 0)),
		}}
		p := s.page()
		ci := func(name string) bool { return strings.HasPrefix(name, "ci/") }
		v := p.Open()
		defer v.Close()
		e, q := next(t, v, ci)
		text, err := json.Marshal(e)
		if err != nil || q["ci/a"] == nil || strings.Contains(string(text), "prod") {
			t.Errorf("a viewer of ci/ gets %s, %v", text, err)
		}
		if got := e.Queues[0].Within["2"]; len(got) != 1 || got[0] != (held{"ci/c", "8"}) {
			t.Errorf("the waiter has %v; want ci/c", got)
		}
		if _, q := next(t, v, all); q["prod/x"] == nil || len(q) != 1 {
			t.Errorf("with more rights it gets %+v; want prod/x", q)
		}
		if e, _ := next(t, v, ci); len(e.Gone) != 1 || e.Gone[0] != "prod/x" {
			t.Errorf("with fewer rights it gets %+v; want that prod/x is gone", e)
		}
	})
}

// Long queues and long lists are cut off, and say so.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock("a", holder(1, 0))
		for i := range int64(10_000) {
			l.Claims = append(l.Claims, waiter(2+i, ""))
		}
		s := &shelf{list: []driver.Listing{l}}
		for i := range mostNames {
			s.list = append(s.list, lock(fmt.Sprintf("b%04d", i)))
		}
		v := s.page().Open()
		defer v.Close()
		e, q := next(t, v, all)
		if q["a"].Waits != 10_000 || len(q["a"].Claims) != 1+most || e.LeftOut != 1 || len(q) != mostNames {
			t.Errorf("%d waiters, %d claims, %d names, %d left out", q["a"].Waits, len(q["a"].Claims), len(q), e.LeftOut)
		}
		// The last waiters leave: the number changes, and nothing else.
		s.list[0].Claims = s.list[0].Claims[:100]
		if _, q := next(t, v, all); q["a"].Waits != 99 || len(q) != 1 {
			t.Errorf("%d names changed, with %d waiters", len(q), q["a"].Waits)
		}
	})
}

// What ended between two snapshots is remembered: how, and since when it was held.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{list: []driver.Listing{lock("a")}}
		p := s.page()
		v := p.Open()
		defer v.Close()
		show := func(claims ...driver.ClaimInfo) {
			t.Helper()
			s.list = []driver.Listing{lock("a", claims...)}
			if len(claims) == 0 {
				s.list = nil
			}
			next(t, v, all)
		}
		since := func(c driver.ClaimInfo, d time.Duration) driver.ClaimInfo {
			c.Since = d
			return c
		}
		next(t, v, all)
		show(holder(1, 10*time.Second), waiter(2, `{"owner":"b"}`), waiter(3, ""), waiter(4, "")) // at 1 s
		show(holder(2, time.Second), waiter(3, ""), waiter(4, ""))                                // at 2 s: 1 was released
		p.Broke("a", 4, Broken{"ops", "it hangs"})
		kept := since(holder(3, time.Minute), 3*time.Second)
		show(since(holder(3, time.Minute), 2*time.Second)) // at 3 s: 2 lapsed, 4 was broken
		kept.Holds, kept.Left = false, true
		show(kept) // 3 was released
		show()     // and its time is over
		ends, now := p.Recent("a")
		if now != p.at(time.Now()) || len(ends) != 4 {
			t.Fatalf("%d ends at %d", len(ends), now)
		}
		for i, want := range []End{
			{Token: "t3", How: released, Held: ends[0].Held}, {Token: "t4", How: broke, Broken: &Broken{"ops", "it hangs"}},
			{Token: "t2", How: lapsed, Held: 2000}, {Token: "t1", How: released, Held: 1000},
		} {
			e := ends[i]
			if e.Token != want.Token || e.How != want.How || e.Held != want.Held || (e.Broken == nil) != (want.Broken == nil) || e.Gone <= e.Seen {
				t.Errorf("%d: %+v, %+v; want %+v", i, e, e.Broken, want)
			}
		}
	})
}

// The history is bounded, by name and in all.
func TestHistoryIsBounded(t *testing.T) {
	p := (&shelf{}).page()
	for name := range pastNames + 10 {
		for i := range int64(pastEnds + 10) {
			p.endedLocked(fmt.Sprint(name), []*claim{{State: holds, shown: true, ticket: i, Token: fmt.Sprint(i)}}, 0, 1)
			p.Broke(fmt.Sprint(name), 1000+i, Broken{})
		}
	}
	if n := len(p.history.of); n != pastNames {
		t.Errorf("%d names; want %d", n, pastNames)
	}
	if ends, _ := p.Recent("9"); len(ends) != 0 {
		t.Errorf("the oldest name still has %d", len(ends))
	}
	ends, _ := p.Recent(fmt.Sprint(pastNames + 9))
	if len(ends) != pastEnds || ends[0].Token != fmt.Sprint(pastEnds+9) || len(p.history.of["500"].broken) > pastEnds {
		t.Errorf("%d ends, from %s", len(ends), ends[0].Token)
	}
}

// Who takes ever new names pushes out the history of its own names, and not of others'.
func TestHistoryIsShared(t *testing.T) {
	p := (&shelf{}).page()
	end := func(principal string, i int) {
		c := &claim{State: holds, shown: true, who: who{Principal: principal}}
		p.endedLocked(fmt.Sprint(principal, i), []*claim{c}, 0, 1)
	}
	for i := range 10 {
		end("ops", i)
	}
	for i := range 2 * pastNames {
		end("ci", i)
	}
	for i := range 10 {
		if ends, _ := p.Recent(fmt.Sprint("ops", i)); len(ends) != 1 {
			t.Errorf("name %d of the other principal has %d ends", i, len(ends))
		}
	}
	if ends, _ := p.Recent(fmt.Sprint("ci", 2*pastNames-1)); len(ends) != 1 || len(p.history.of) != pastNames || p.history.sizes["ci"] != pastNames-10 {
		t.Errorf("the latest name has %d ends, of %d names, and %d by who took so many", len(ends), len(p.history.of), p.history.sizes["ci"])
	}
}

// No text ends the element that the first data stand in.
func TestIndex(t *testing.T) {
	const evil = "</script><script>alert(1)</script><!--\u2028{{first}}"
	text, err := Index(map[string]string{"name": evil})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte(`id="first">`))
	data, after, found := bytes.Cut(rest, []byte("</script>"))
	var got map[string]string
	if err := json.Unmarshal(data, &got); err != nil || got["name"] != evil || !found || bytes.Contains(after, []byte("alert(1)")) {
		t.Errorf("the data are %s, %v", data, err)
	}
	// The policy forbids what stands in the HTML itself.
	for _, what := range []string{"<style", " style=", " onclick=", "javascript:", "unsafe"} {
		if bytes.Contains(text, []byte(what)) || strings.Contains(Policy, what) {
			t.Errorf("there is %s", what)
		}
	}
	if n := bytes.Count(after, []byte("<script ")); n != 1 || !bytes.Contains(after, []byte(`<script type="module" src="/page/page.js">`)) {
		t.Errorf("there are %d scripts", n)
	}
}
