package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The list is in the chosen order, and stays in it while it changes.
func TestSort(t *testing.T) {
	s := serve(t, nil, false)
	waits := func(name string, d time.Duration) {
		s.store.more.Store(name, d)
		s.enter(name, by("w", "", ""))
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.enter(name, by("x", "", ""), lease(time.Hour))
	}
	waits("a", time.Minute)
	waits("c", 3*time.Minute)
	ctx := tab(t)
	shows := func(want string) {
		t.Helper()
		until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll(".row > a")].map((a) => a.textContent).join(" ") === %q`, want))
	}
	has := func(name string) {
		t.Helper()
		until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll(".row")].find((r) => r.firstChild.textContent === %q).querySelector(".line b")`, name))
	}
	do(t, ctx, size(1440, 900, "light"), chromedp.Navigate(s.url))
	shows("c a b d") // by the longest wait
	do(t, ctx, chromedp.Focus(chromedp.CSS("#sort")), chromedp.KeyEvent(kb.End))
	shows("a b c d")
	waits("b", 10*time.Minute)
	has("b")
	shows("a b c d")
	do(t, ctx, chromedp.KeyEvent(kb.Home))
	shows("b c a d")
	waits("d", 20*time.Minute)
	has("d")
	shows("d b c a")
	if got := ask[string](t, ctx, `document.getElementById("sort").value`); got != "wait" {
		t.Errorf("the order is now %q", got)
	}
}

// A list that is cut off says so, wherever a viewer looks at it, and as long as it is.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, false)
	last := s.enter("0", by("x", "", ""), lease(time.Hour))
	for i := range 5000 {
		s.enter(fmt.Sprintf("orders/%04d", i), by("x", "", ""), lease(time.Hour))
	}
	ctx := tab(t)
	do(t, ctx, size(1440, 900, "light"), chromedp.Navigate(s.url))
	const cut = "The list is cut off: 1 further name is in the store."
	says := func(totals, end string) {
		t.Helper()
		until(t, ctx, fmt.Sprintf(`document.getElementById("totals").innerText.startsWith(%q) && document.getElementById("more").textContent === %q`, totals, end))
	}
	search := func(words string) {
		do(t, ctx, run(fmt.Sprintf(`document.getElementById("search").value = %q; document.getElementById("search").dispatchEvent(new Event("input"))`, words)))
	}
	says("5,000 of 5,001 names · ", "4,700 further names: scroll on. "+cut)
	search("orders/0007")
	says("5,000 of 5,001 names · ", cut)
	search("orders/4999") // it is the one that is left out
	says("5,000 of 5,001 names · ", "No name, holder, host or reason has these words. "+cut)
	s.leave(last, 0)
	says("5,000 names · ", "")
	search("")
	says("5,000 names · ", "4,700 further names: scroll on.")
}
