package page

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/server"
)

// there reports whether a claim is in the store.
func (s *service) there(c *driver.Claim) bool {
	s.t.Helper()
	list, err := s.store.List(s.t.Context(), &driver.Query{Name: c.Name})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range list {
		for _, have := range l.Claims {
			if have.Ticket == c.Ticket {
				return true
			}
		}
	}
	return false
}

// breaks sends the request of the break form, and returns the status of the answer.
func breaks(t *testing.T, ctx context.Context, c *driver.Claim, reason string) int {
	t.Helper()
	status, err := chromedp.Run(ctx, chromedp.Evaluate[int](fmt.Sprintf(`fetch("/page/break", { method: "POST", headers: { "Content-Type": "application/json" },
		body: JSON.stringify({ name: %q, id: "%d", reason: %q }) }).then((answer) => answer.status)`, c.Name, c.Ticket, reason), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// Only who may break a claim has the control for it. Without the right the service refuses also the request that the control sends.
func TestBreakNeedsItsRight(t *testing.T) {
	read := server.Right{Verbs: []server.Verb{server.Read}}
	s := serve(t, map[string]*server.Principal{
		"reader": {Name: "reader", Rights: []server.Right{read}},
		"ci":     {Name: "ci", Rights: []server.Right{read, {Verbs: []server.Verb{server.Break}, Prefix: "ci/"}}},
	}, false)
	claims := []*driver.Claim{s.enter("prod/a", by("x", "", "")), s.enter("ci/a", by("x", "", ""))}
	for _, token := range []string{"reader", "ci"} {
		ctx := tab(t)
		do(t, ctx, size(1440, 900, "light"), chromedp.Navigate(s.url), chromedp.WaitVisible(chromedp.CSS("#token")),
			chromedp.SendKeys(chromedp.CSS("#token"), token+kb.Enter))
		until(t, ctx, `document.querySelectorAll(".row").length === 2`)
		for _, c := range claims {
			may, want := token == "ci" && c.Name == "ci/a", 403
			if may {
				want = 200
			}
			do(t, ctx, run(fmt.Sprintf("location.hash = encodeURIComponent(%q)", c.Name)))
			until(t, ctx, fmt.Sprintf(`document.getElementById("title")?.textContent === %q && document.querySelector(".queue .holds")`, c.Name))
			if got := ask[bool](t, ctx, `document.querySelector("#one button") !== null`); got != may {
				t.Errorf("%s has the control of %s: %v", token, c.Name, got)
			}
			if got := breaks(t, ctx, c, "why"); got != want || s.there(c) == may {
				t.Errorf("%s breaks %s = %d; want %d. The claim is in the store: %v", token, c.Name, got, want, s.there(c))
			}
		}
		do(t, ctx, chromedp.Click(chromedp.CSS("#logout")), chromedp.WaitVisible(chromedp.CSS("#token")))
	}
}

// With Tab and Enter alone a viewer opens a name and breaks its claim. However long the list is, the queue of the open name comes
// next, and the focus stays in it, whatever changes there.
func TestTabs(t *testing.T) {
	for _, width := range []int64{390, 1440} {
		s := serve(t, nil, false)
		for i := range 40 {
			s.enter(fmt.Sprintf("n%02d", i), by("x", "", ""))
		}
		s.enter("n03", by("next", "", ""))
		ctx := tab(t)
		do(t, ctx, size(width, 900, "light"), chromedp.Navigate(s.url))
		until(t, ctx, `document.querySelectorAll(".row").length === 40`)
		tabs := func(most int, to string) {
			t.Helper()
			for n := 0; !ask[bool](t, ctx, to); n++ {
				if n == most {
					t.Fatalf("at %d pixels, %d times Tab lead to %s", width, most, ask[string](t, ctx, "document.activeElement.outerHTML"))
				}
				do(t, ctx, chromedp.KeyEvent(kb.Tab))
			}
		}
		tabs(8, `document.activeElement.textContent === "n03"`)
		do(t, ctx, chromedp.KeyEvent(kb.Enter))
		until(t, ctx, `document.getElementById("title")?.textContent === "n03"`)
		tabs(3, `document.activeElement.getAttribute("aria-label") === "Break the claim of x"`)
		do(t, ctx, chromedp.KeyEvent(kb.Enter))
		until(t, ctx, `document.getElementById("break").open && document.activeElement.id === "reason"`)
		s.enter("n03", by("last", "", ""))
		until(t, ctx, `document.querySelectorAll(".queue .waits").length === 2`)
		do(t, ctx, chromedp.KeyEvent("it hangs"), chromedp.KeyEvent(kb.Enter))
		const inside = `document.getElementById("one").contains(document.activeElement)`
		until(t, ctx, `!document.getElementById("break").open && `+inside)
		until(t, ctx, `document.querySelector(".queue .holds .who").textContent === "holds: next"`)
		tabs(3, `document.activeElement.getAttribute("aria-label") === "Break the claim of next"`)
		do(t, ctx, chromedp.KeyEvent(kb.Enter))
		until(t, ctx, `document.getElementById("break").open`)
		do(t, ctx, chromedp.KeyEvent("again"), chromedp.KeyEvent(kb.Enter))
		until(t, ctx, `document.querySelectorAll(".past tbody tr").length === 2 && `+inside)
	}
}

// The page says when a hold ended: not before the end, and not after its row was gone.
func TestTimes(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, false)
	released, broken := s.enter("released", by("x", "", "")), s.enter("broken", by("x", "", ""))
	const ttl = 4 * time.Second
	ended := map[string]time.Time{"lost": time.Now().Add(ttl)} // or a moment before
	s.enter("lost", by("x", "", ""), lease(ttl))
	ctx := tab(t)
	do(t, ctx, size(1440, 900, "light"), chromedp.Navigate(s.url))
	until(t, ctx, `document.querySelectorAll(".row").length === 3`)
	ended["released"] = time.Now()
	s.leave(released, 0)
	ended["broken"] = time.Now()
	if got := breaks(t, ctx, broken, "it hangs"); got != 200 {
		t.Fatalf("break = %d", got)
	}
	gone := map[string]time.Time{}
	for _, name := range []string{"released", "broken", "lost"} {
		until(t, ctx, fmt.Sprintf(`![...document.querySelectorAll(".row")].some((r) => r.firstChild.textContent === %q)`, name))
		gone[name] = time.Now()
	}
	for name, how := range map[string]string{"released": "released", "broken": "broken: it hangs", "lost": "lost: its lease ran out"} {
		do(t, ctx, run(fmt.Sprintf("location.hash = %q", name)))
		until(t, ctx, fmt.Sprintf(`document.getElementById("title")?.textContent === %q && document.querySelector(".past td:nth-child(2)")?.textContent === %q`, name, how))
		// Seconds ago, when the page began to say so; and before, when it said another number.
		said, err := chromedp.Run(ctx, chromedp.Evaluate[[]int64](`new Promise((yes) => {
			let was, before;
			const look = () => {
				const text = document.querySelector(".past td:last-child").textContent, now = Date.now();
				if (was && text !== was) return yes([parseInt(text), before, now]);
				[was, before] = [text, now];
				setTimeout(look, 20);
			};
			look();
		})`, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		ago := time.Duration(said[0]) * time.Second
		earliest, latest := time.UnixMilli(said[1]).Add(-ago-time.Second), time.UnixMilli(said[2]).Add(-ago)
		if latest.Before(ended[name].Truncate(time.Millisecond)) || earliest.After(gone[name]) {
			t.Errorf("%s says %v, so between %v and %v; it ended after %v, and was gone at %v", name, ago, earliest, latest, ended[name], gone[name])
		}
	}
}

// A hold that ended while the page was cut off from the service is among the ended ones when the page is back.
func TestEndMeanwhile(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, false)
	c := s.enter("a", by("x", "", ""))
	ctx := tab(t)
	do(t, ctx, chromedp.Navigate(s.url+"/#a"))
	until(t, ctx, `document.getElementById("status").textContent === "live" && document.querySelector(".queue .holds")`)
	s.web.CloseClientConnections()
	s.leave(c, 0)
	until(t, ctx, `document.querySelector(".past td")?.textContent === "x"`)
}
