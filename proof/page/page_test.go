package page

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

var shots = flag.String("shots", "", "the folder that pictures of the page are written to; none are kept without it")

// chromium is the browser of all tests.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		// Nobody sees the browser, and root runs it in containers, where it has no sandbox.
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.NoSandbox, chromedp.Flag("force-color-profile", "srgb"))...)
		defer cancel()
		chromium, cancel = chromedp.NewContext(ctx)
		defer cancel()
		if err := chromedp.Do(chromium); err != nil {
			fmt.Fprintln(os.Stderr, "chromium does not start; Debian's package is chromium:", err)
			return 1
		}
		return m.Run()
	}())
}

// Only a hang meets these bounds, of a test and of one condition.
const (
	limit    = 5 * time.Minute
	patience = time.Minute
)

// A tab is an empty tab of the browser. What the page's script reports as an error fails the test.
func tab(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithListener(func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the script failed: %+v", e.ExceptionDetails)
		case *cdplog.EventEntryAdded:
			if e.Entry.Source == cdplog.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
				t.Errorf("the browser says: %s", e.Entry.Text)
			}
		case *cdppage.EventJavascriptDialogOpening:
			t.Errorf("a dialog says %s", e.Message)
		}
	}))
	t.Cleanup(cancel)
	do(t, ctx)
	ctx, stop := context.WithTimeout(ctx, limit)
	t.Cleanup(stop)
	return ctx
}

// do runs actions in a tab.
func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// ask evaluates an expression in a tab.
func ask[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// run runs a statement in a tab.
func run(statement string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](statement)
}

// until waits until an expression is true in a tab.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	look := chromedp.Evaluate[bool]("new Promise((yes) => { const look = () => "+expression+" ? yes(true) : setTimeout(look, 20); look(); })",
		chromedp.EvalAwaitPromise)
	for {
		bounded, stop := context.WithTimeout(ctx, patience)
		_, err := chromedp.Run(bounded, look)
		over := bounded.Err() != nil
		stop()
		if err == nil {
			return
		}
		if over {
			t.Fatalf("%s never comes: %v; the page says %s", expression, err, ask[string](t, ctx, "document.body.innerText"))
		}
		// The page was left for another one.
	}
}

// schemes are the color schemes.
var schemes = []string{"light", "dark"}

// size is the size of a window, in a color scheme.
func size(width, height int64, scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
		})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// A service is a lock service with a page over a store in memory.
type service struct {
	t     *testing.T
	store aged
	url   string
	web   *httptest.Server
	n     int
}

// aged is a store. If it is old, it shows what a picture would else have to wait for.
type aged struct {
	*memory.Driver
	old  bool
	away *atomic.Bool // it cannot be read
	more *sync.Map    // by name: how much longer its waiters have waited than they did
}

func (a aged) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if a.away.Load() {
		return nil, errors.New("it is away")
	}
	list, err := a.Driver.List(ctx, q)
	for i := range list {
		for k := range list[i].Claims {
			if c := &list[i].Claims[k]; a.old {
				c.Since += time.Duration(7+i*53%97) * 7 * time.Second / time.Duration(k+1)
				if c.Holds && !c.Left {
					c.Remaining = record.TTL(c.Record) * time.Duration(95-i*37%60) / 100
				}
			} else if more, ok := a.more.Load(list[i].Name); ok && !c.Holds {
				c.Since += more.(time.Duration)
			}
		}
	}
	return list, err
}

// serve starts a service. Its viewers need the token of a principal, if there are any.
func serve(t *testing.T, principals map[string]*server.Principal, old bool) *service {
	t.Helper()
	o := &server.Options{Page: true}
	if principals != nil {
		o.Authenticate = func(r *http.Request) (*server.Principal, error) {
			return principals[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")], nil
		}
	}
	store := aged{memory.New(), old, &atomic.Bool{}, &sync.Map{}}
	s, err := server.New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.EndWaits()
		web.CloseClientConnections()
		web.Close()
		store.Close()
	})
	return &service{t: t, store: store, url: web.URL, web: web}
}

// enter puts a claim into a queue. A claim that has no permits wants all.
func (s *service) enter(name string, h record.Holder, change ...func(*driver.Claim)) *driver.Claim {
	s.t.Helper()
	s.n++
	c := &driver.Claim{Name: name, ID: fmt.Sprint("claim", s.n), Client: "c", Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Hour}
	for _, f := range change {
		f(c)
	}
	c.Wait = min(c.Wait, c.TTL)
	principal := h.Principal
	h.Principal = "" // which the service adds
	text, err := record.Of(h, c.TTL)
	if err != nil {
		s.t.Fatal(err)
	}
	if c.Record = record.With(text, principal); s.store.old {
		c.TTL = time.Hour
	}
	p, err := s.store.Enter(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	c.Ticket = p.Ticket
	return c
}

func (s *service) leave(c *driver.Claim, keep time.Duration) {
	s.t.Helper()
	if err := s.store.Leave(s.t.Context(), &driver.Release{Claim: c, Keep: keep}); err != nil {
		s.t.Fatal(err)
	}
}

func lease(ttl time.Duration) func(*driver.Claim) {
	return func(c *driver.Claim) { c.TTL = ttl }
}

func permits(n, of int64) func(*driver.Claim) {
	return func(c *driver.Claim) { c.Weight, c.Capacity, c.TTL = n, of, time.Hour }
}

// by is a holder's record.
func by(owner, host, reason string) record.Holder {
	return record.Holder{Owner: owner, Program: "stile", Host: host, PID: 4711, Reason: reason}
}

// as is a holder's record as the service keeps it for a principal.
func as(principal string, h record.Holder) record.Holder {
	h.Principal = principal
	return h
}

const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>`

// The page shows all names, and one of them with its queue, and follows each change.
func TestPage(t *testing.T) {
	s := serve(t, nil, false)
	first := s.enter("orders/42", by("nightly", "db1", "the monthly report"))
	s.enter("orders/42", as("ci", by("deploy", "ci3", "")))
	s.enter("orders/42", by("ops", "", evil))
	s.enter("pool", by("one", "w1", ""), permits(2, 5))
	s.enter("pool", by("two", "w2", ""), permits(1, 5))
	s.leave(s.enter("cron/report", by("cron", "w3", "")), time.Hour)
	s.enter(evil, by("x", "", ""))
	ctx := tab(t)
	do(t, ctx, size(1440, 900, "light"), chromedp.Navigate(s.url))
	until(t, ctx, `document.querySelectorAll(".row").length === 4 && document.getElementById("status").textContent === "live"`)
	rowOf := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".row")].find((r) => r.firstChild.textContent === %q)`, name)
	}
	if got := ask[string](t, ctx, rowOf("orders/42")+".innerText"); !strings.Contains(got, "nightly on db1") || !strings.Contains(got, "the monthly report") ||
		!strings.Contains(got, "2 wait") || !strings.Contains(got, "deploy as ci on ci3, ops") {
		t.Errorf("the row says %q", got)
	}
	if got := ask[float64](t, ctx, rowOf("orders/42")+`.querySelector(".bar i").style.transform.match(/[\d.]+/)[0] * 1`); got < 0.3 || got > 1 {
		t.Errorf("of a new lease %v is left", got)
	}
	if got := ask[string](t, ctx, rowOf("pool")+`.querySelector(".boxes").getAttribute("aria-label")`); got != "3 of 5 permits taken" ||
		ask[int](t, ctx, rowOf("pool")+`.querySelectorAll(".taken").length`) != 3 {
		t.Errorf("the permits are %q", got)
	}
	if got := ask[string](t, ctx, rowOf("cron/report")+".innerText"); !strings.Contains(got, "kept") {
		t.Errorf("a kept claim says %q", got)
	}
	if got := ask[string](t, ctx, `document.getElementById("totals").innerText`); !strings.HasPrefix(got, "4 names · 4 held · 2 wait · longest ") {
		t.Errorf("the totals are %q", got)
	}

	do(t, ctx, chromedp.Click(chromedp.CSS(`a[href="#orders%2F42"]`)))
	until(t, ctx, `document.querySelectorAll(".queue .waits").length === 2`)
	if got := ask[[]string](t, ctx, `[...document.querySelectorAll(".queue .who")].map((e) => e.textContent)`); strings.Join(got, "; ") != "holds: nightly on db1; waits: deploy as ci on ci3; waits: ops" {
		t.Errorf("the queue is %q", got)
	}
	if got := ask[string](t, ctx, `document.querySelector(".queue .holds").innerText`); !strings.Contains(got, fmt.Sprint("token ", first.Ticket<<10)) {
		t.Errorf("the holder is %q; want its token", got)
	}

	s.leave(first, 0)
	until(t, ctx, `document.querySelector(".queue .holds .who").textContent === "holds: deploy as ci on ci3"`)
	until(t, ctx, `document.querySelector(".past td")?.textContent === "nightly on db1"`)
	if got := ask[string](t, ctx, `document.querySelector(".past").innerText`); !strings.Contains(got, "released") {
		t.Errorf("the past is %q", got)
	}

	do(t, ctx, chromedp.Click(chromedp.CSS(".queue .holds button")), chromedp.WaitVisible(chromedp.CSS("#reason")),
		chromedp.SendKeys(chromedp.CSS("#reason"), "it hangs"), chromedp.Click(chromedp.CSS("#confirm")))
	until(t, ctx, `document.querySelector(".queue .holds .who").textContent === "holds: ops"`)
	until(t, ctx, `document.querySelector(".past").innerText.includes("broken: it hangs")`)
	if ask[bool](t, ctx, `document.getElementById("break").open`) {
		t.Error("the dialog is still open")
	}

	s.web.CloseClientConnections()
	s.web.Listener.Close()
	until(t, ctx, `document.getElementById("status").textContent.startsWith("Cut off from the service; shown as of")`)
}

// slash presses the key without its character, which a browser leaves out if the page takes the key.
var slash = chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: "/", Code: "Slash"})
	return err
})

// Everything is reached by the keyboard, and the focus comes back.
func TestKeyboard(t *testing.T) {
	s := serve(t, nil, false)
	for _, name := range []string{"a", "b", "c"} {
		s.enter(name, by("x", "", ""))
	}
	ctx := tab(t)
	do(t, ctx, size(390, 800, "light"), chromedp.Navigate(s.url))
	until(t, ctx, `document.querySelectorAll(".row").length === 3`)
	do(t, ctx, slash)
	until(t, ctx, `document.activeElement.id === "search"`)
	do(t, ctx, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	until(t, ctx, `document.activeElement.textContent === "b"`)
	do(t, ctx, chromedp.KeyEvent(kb.Enter))
	until(t, ctx, `document.activeElement.id === "one" && document.getElementById("title").textContent === "b"`)
	do(t, ctx, chromedp.KeyEvent(kb.Escape))
	until(t, ctx, `document.activeElement.textContent === "b" && location.hash === "" && document.querySelector(".row").offsetHeight > 0`)
	do(t, ctx, slash, chromedp.KeyEvent("c"))
	until(t, ctx, `document.querySelectorAll(".row").length === 1`)
}

// A viewer logs in and sees what it may; the browser keeps the cookie also without TLS on a loopback address. A revoked token
// ends the login.
func TestLoginInBrowser(t *testing.T) {
	principals := map[string]*server.Principal{"secret": {Name: "ci", Rights: []server.Right{{Verbs: []server.Verb{server.Read}, Prefix: "ci/"}}}}
	s := serve(t, principals, false)
	s.enter("ci/a", by("x", "", ""))
	s.enter("prod/a", by("x", "", ""))
	for _, host := range []string{"127.0.0.1", "localhost"} {
		ctx := tab(t)
		do(t, ctx, chromedp.Navigate(strings.Replace(s.url, "127.0.0.1", host, 1)), chromedp.WaitVisible(chromedp.CSS("#token")), chromedp.SendKeys(chromedp.CSS("#token"), "wrong"), chromedp.Click(chromedp.CSS("#login button")))
		until(t, ctx, `document.getElementById("refused").textContent !== ""`)
		do(t, ctx, chromedp.SetValue(chromedp.CSS("#token"), "secret"), chromedp.Click(chromedp.CSS("#login button")))
		until(t, ctx, `document.querySelectorAll(".row").length === 1 && document.getElementById("status").textContent === "live"`)
		if got := ask[string](t, ctx, "document.body.innerText"); !strings.Contains(got, "ci/a") || strings.Contains(got, "prod/a") {
			t.Errorf("ci sees %q", got)
		}
		if got := ask[string](t, ctx, "document.cookie"); got != "" {
			t.Errorf("a script reads the cookie %s", got)
		}
		do(t, ctx, chromedp.Click(chromedp.CSS("#logout")), chromedp.WaitVisible(chromedp.CSS("#token")))
	}
}

// At no width, in no scheme, with no text, does the page scroll sideways; and a long list is shown as far as it is seen.
func TestWidths(t *testing.T) {
	s := serve(t, nil, false)
	long := strings.Repeat("a-very-long-name", 15)
	s.enter(long, by(long, long, long))
	s.enter(long, by(long, long, long))
	s.enter("readers", by("r", "h", ""), func(c *driver.Claim) { c.Weight = 1 })
	s.enter("large", by("r", "h", ""), permits(3, 24))
	for i := range 1000 {
		s.enter(fmt.Sprintf("orders/%04d", i), by("worker", "w1", "an order"))
	}
	ctx := tab(t)
	do(t, ctx, chromedp.Navigate(s.url))
	until(t, ctx, `document.querySelectorAll(".row").length === 300`)
	for _, hash := range []string{"", "#" + long} {
		do(t, ctx, run(fmt.Sprintf("location.hash = %q", hash)))
		for _, width := range []int64{320, 390, 560, 768, 1199, 1200, 1440, 1920} {
			for _, scheme := range schemes {
				do(t, ctx, size(width, 900, scheme))
				if got := ask[int64](t, ctx, "document.scrollingElement.scrollWidth"); got > width {
					t.Errorf("%d of %d pixels, at %.8s, %s", got, width, hash, scheme)
				}
			}
		}
	}
	do(t, ctx, run(`document.getElementById("search").value = "orders/0999"; document.getElementById("search").dispatchEvent(new Event("input"))`))
	until(t, ctx, `document.querySelectorAll(".row").length === 1 && document.querySelector(".row").textContent.includes("orders/0999")`)
}

// The page follows what holders wait for, and finds the circle in which nobody goes on. It does not show a long queue whole, and
// says so.
func TestWaitsFor(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, false)
	within := func(owner string, has *driver.Claim) record.Holder {
		h := by(owner, "", "")
		h.Within = fmt.Sprint(has.Ticket, " ", has.Name)
		return h
	}
	a, b := s.enter("a", by("anna", "", ""), lease(time.Hour)), s.enter("b", by("ben", "", ""), lease(time.Hour))
	s.enter("b", within("anna", a), lease(time.Hour))
	s.enter("a", within("ben", b), lease(time.Hour))
	for i := range 60 {
		s.enter("a", by(fmt.Sprint("w", i), "", ""), lease(time.Hour))
	}
	ctx := tab(t)
	do(t, ctx, size(1440, 900, "dark"), chromedp.Navigate(s.url+"/#a"))
	until(t, ctx, `document.querySelectorAll(".chain li").length === 2`)
	if got := ask[[]string](t, ctx, `[...document.querySelectorAll(".chain li")].map((e) => e.textContent)`); got[0] != "anna waits for b" ||
		got[1] != "ben waits for a: a circle, in which everybody waits for the next" {
		t.Errorf("the chain is %q", got)
	}
	if got := ask[string](t, ctx, `document.querySelector(".queue .waits").innerText`); !strings.Contains(got, "has b meanwhile") {
		t.Errorf("the first waiter is %q", got)
	}
	if got := ask[string](t, ctx, `document.querySelector(".queue").lastChild.textContent`); got != "…11 more wait" {
		t.Errorf("the queue ends with %q", got)
	}
	s.leave(b, 0)
	until(t, ctx, `document.querySelectorAll(".chain li").length === 0`)
}

// While the store cannot be read, the page says so, and what it shows is pale and has its age.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, false)
	s.enter("a", by("anna", "", ""))
	ctx := tab(t)
	const (
		live = `document.getElementById("status").textContent === "live"`
		pale = `getComputedStyle(document.querySelector(".row a")).color === getComputedStyle(document.querySelector(".row .quiet")).color`
	)
	do(t, ctx, chromedp.Navigate(s.url))
	until(t, ctx, live+" && !("+pale+")")
	s.store.away.Store(true)
	until(t, ctx, `document.getElementById("status").textContent.startsWith("The store cannot be read; shown as of ")`)
	if !ask[bool](t, ctx, pale+` && document.querySelectorAll(".row").length === 1 && document.getElementById("status").title.includes("it is away")`) {
		t.Error("the old contents are not shown as old ones, with the reason")
	}
	s.store.away.Store(false)
	until(t, ctx, live+" && !("+pale+")")
}

// A thousand names and ten thousand waiters are shown and searched, and the page has no more rows than are seen.
func TestMany(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, false)
	for i := range 1000 {
		for k := range 11 {
			s.enter(fmt.Sprintf("orders/%04d", i), by(fmt.Sprintf("worker-%d-%d", i, k), "w1", "an order"), lease(time.Hour))
		}
	}
	ctx := tab(t)
	do(t, ctx, chromedp.Navigate(s.url))
	until(t, ctx, `document.getElementById("totals").innerText.startsWith("1,000 names · 1,000 held · 10,000 wait · longest ")`)
	if got := ask[int](t, ctx, `document.querySelectorAll(".row").length`); got != 300 {
		t.Errorf("%d rows; want 300 until somebody scrolls", got)
	}
	do(t, ctx, run(`document.getElementById("search").value = "WORKER-999-10"; document.getElementById("search").dispatchEvent(new Event("input"))`))
	until(t, ctx, `document.querySelectorAll(".row").length === 1 && document.querySelector(".row a").textContent === "orders/0999"`)
	do(t, ctx, run(`document.getElementById("search").value = ""; document.getElementById("search").dispatchEvent(new Event("input")); scrollTo(0, 1e6)`))
	until(t, ctx, `document.querySelectorAll(".row").length > 300`)
	until(t, ctx, `document.querySelectorAll(".row").length === 1000 || scrollTo(0, 1e6)`)
}

// Pictures for people to look at. Without -shots they are made too, so that they can be made when somebody wants them.
func TestShots(t *testing.T) {
	dir := cmp.Or(*shots, t.TempDir())
	s := serve(t, nil, true)
	town(s)
	ctx := tab(t)
	shot := func(name string) {
		t.Helper()
		p := cdppage.CaptureScreenshotParams{Format: cdppage.CaptureScreenshotFormatPng}
		if strings.HasSuffix(name, ".webp") {
			p = cdppage.CaptureScreenshotParams{Format: cdppage.CaptureScreenshotFormatWebp, Quality: new(int64(80))}
		}
		picture, err := chromedp.Call(ctx, cdppage.CaptureScreenshot, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), picture.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, scheme := range schemes {
		for _, width := range []int64{390, 768, 1440} {
			do(t, ctx, size(width, map[int64]int64{390: 844, 768: 1024, 1440: 900}[width], scheme), chromedp.Navigate(s.url+"/?"+fmt.Sprint(width, scheme)))
			until(t, ctx, `document.getElementById("status").textContent === "live"`)
			shot(fmt.Sprintf("list-%d-%s.png", width, scheme))
			do(t, ctx, run(`location.hash = "deploy%2Fproduction"`))
			until(t, ctx, `document.getElementById("title")?.textContent === "deploy/production"`)
			shot(fmt.Sprintf("one-%d-%s.png", width, scheme))
		}
		do(t, ctx, chromedp.Click(chromedp.CSS(".queue .holds button")), chromedp.WaitVisible(chromedp.CSS("#reason")))
		shot("break-" + scheme + ".png")
		do(t, ctx, chromedp.KeyEvent(kb.Escape), size(1280, 640, scheme)) // of the book
		until(t, ctx, `!document.getElementById("break").open`)
		shot("page-" + scheme + ".webp")
	}
}

// town has locks such as people have.
func town(s *service) {
	gone := s.enter("deploy/production", by("release-1423", "ci2", "hotfix of the cart"))
	holder := s.enter("deploy/production", as("ci", by("release-1424", "ci1", "rolling out 2026.11.3")), lease(30*time.Second))
	s.enter("deploy/production", as("ci", by("release-1425", "ci3", "rolling out 2026.11.4")))
	s.enter("deploy/production", by("schema-migration", "db1", "adds orders.currency"))
	s.enter("deploy/production", by("anna", "anna-laptop", "a look at the logs before the next one"))
	s.leave(gone, 0)
	s.enter("migrations/orders", by("migrate", "db1", "adds orders.currency"), lease(15*time.Second))
	within := as("ci", by("release-1424", "ci1", ""))
	within.Within = fmt.Sprint(holder.Ticket, " deploy/production")
	s.enter("migrations/orders", within)
	for i := range 4 {
		s.enter("pool/gpu", by(fmt.Sprint("train-", i+1), fmt.Sprint("gpu", i%2+1), ""), permits(2, 6))
	}
	for i := range 3 {
		s.enter("config", by(fmt.Sprint("web-", i+1), fmt.Sprint("web", i+1), ""), func(c *driver.Claim) { c.Weight = 1 })
	}
	s.leave(s.enter("cron/nightly-report", by("nightly", "worker3", "once a day")), 40*time.Minute)
	s.enter("leader/scheduler", by("scheduler", "worker1", ""), lease(10*time.Second))
	for i := range 8 {
		s.enter(fmt.Sprintf("orders/%d", 84210+i*7), by("checkout", fmt.Sprint("web", i%3+1), "payment"), lease(20*time.Second))
		for range i % 3 {
			s.enter(fmt.Sprintf("orders/%d", 84210+i*7), by("refund", "worker2", ""))
		}
	}
}
