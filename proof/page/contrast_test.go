package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/stilelock/stile/server"
)

// faint returns the texts in sight whose contrast to their ground is below 4.5, the least of WCAG 2 at level AA, and the number of all
// texts in sight. Colors may be translucent, and so may whole elements.
const faint = `(() => {
  const parse = (css) => {
    const [r, g, b, a] = css.match(/[\d.]+(e-\d+)?/g).map(Number), k = css.startsWith("color(") ? 255 : 1;
    return [[r * k, g * k, b * k], a ?? 1];
  };
  const over = ([top, a], ground) => top.map((v, i) => a * v + (1 - a) * ground[i]);
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const low = [];
  let count = 0;
  for (const e of document.querySelectorAll("body *")) {
    const empty = e.matches("input") && !e.value;
    const text = e.matches("input, select") ? e.value || e.placeholder : [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("").trim();
    if (!text || e.matches("option") || e.closest(".hidden") || !e.checkVisibility({ visibilityProperty: true }) || !e.getClientRects().length) continue;
    count++;
    const chain = [];
    for (let at = e; at; at = at.parentElement) chain.unshift(at);
    let ground = [255, 255, 255];
    const behind = [];
    for (const at of chain) {
      const style = getComputedStyle(at);
      if (style.opacity < 1) behind.unshift([Number(style.opacity), ground]);
      ground = over(parse(style.backgroundColor), ground);
    }
    let ink = over(parse(getComputedStyle(e, empty ? "::placeholder" : null).color), ground);
    for (const [a, back] of behind) [ink, ground] = [over([ink, a], back), over([ground, a], back)];
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    if (a / b < 4.5) low.push(` + "`${text}: ${(a / b).toFixed(2)}`" + `);
  }
  return { low, count };
})()`

// In both schemes, at each width and in each state, every text of the page can be read.
func TestContrast(t *testing.T) {
	s := serve(t, nil, true)
	town(s)
	ended := s.enter("ended", by("nightly", "db1", "the report"))
	guarded := serve(t, map[string]*server.Principal{"secret": {Name: "ci"}}, false)
	ctx := tab(t)
	readable := func(what string, least int) {
		t.Helper()
		type texts struct {
			Low   []string `json:"low"`
			Count int      `json:"count"`
		}
		if got := ask[texts](t, ctx, faint); len(got.Low) > 0 || got.Count < least {
			t.Errorf("%s: of %d texts, want %d or more, these are faint: %s", what, got.Count, least, strings.Join(got.Low, "; "))
		}
	}
	do(t, ctx, chromedp.Navigate(s.url+"/#ended"))
	until(t, ctx, `document.querySelectorAll(".queue .holds").length === 1`)
	s.leave(ended, 0)
	until(t, ctx, `document.querySelectorAll(".past td").length > 0`)
	for _, scheme := range schemes {
		for _, width := range []int64{390, 768, 1440} {
			at := fmt.Sprintf(", %s, at %d pixels", scheme, width)
			do(t, ctx, size(width, 900, scheme), chromedp.Navigate(s.url+"/?"+fmt.Sprint(width, scheme)))
			until(t, ctx, fmt.Sprintf(`document.getElementById("status").textContent === "live" && matchMedia("(prefers-color-scheme: %s)").matches`, scheme))
			readable("the list"+at, 50)
			do(t, ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 100, 300))
			until(t, ctx, `document.querySelector(".row:hover")`)
			readable("the list with a pointer"+at, 50)
			do(t, ctx, run(`document.body.classList.add("stale")`))
			readable("an old list"+at, 50)
			do(t, ctx, run(`location.hash = "ended"`))
			until(t, ctx, `document.querySelectorAll(".past td").length > 0`)
			readable("the past"+at, 6)
			do(t, ctx, run(`location.hash = "deploy%2Fproduction"`))
			until(t, ctx, `document.getElementById("title").textContent === "deploy/production"`)
			readable("a name"+at, 15)
			do(t, ctx, run(`document.body.classList.add("stale")`))
			readable("an old name"+at, 15)
			do(t, ctx, chromedp.Click(chromedp.CSS(".queue .holds button")), chromedp.WaitVisible(chromedp.CSS("#reason")))
			readable("the dialog"+at, 15)
			do(t, ctx, chromedp.Navigate(guarded.url+"/?"+fmt.Sprint(width, scheme)), chromedp.WaitVisible(chromedp.CSS("#token")))
			readable("the login"+at, 5)
		}
	}
}
