package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
)

// entering and leaving are lines of a batch.
func entering(t *testing.T, c api.Claim) string {
	return body(t, &api.BatchItem{Enter: &api.EnterRequest{Claim: c}})
}

func leaving(t *testing.T, c api.Claim) string {
	return body(t, &api.BatchItem{Leave: &api.LeaveRequest{Claim: c}})
}

// batch sends a batch. It returns the status, the answers by item, and when each came.
func batch(ctx context.Context, t *testing.T, by http.RoundTripper, url string, lines ...string) (int, map[int]*api.BatchAnswer, map[int]time.Duration) {
	t.Helper()
	res, answers, after := sendBatch(t, by, batchOf(ctx, t, url, lines...))
	return res.StatusCode, answers, after
}

// batchOf is the request of a batch.
func batchOf(ctx context.Context, t *testing.T, url string, lines ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+api.Batch, strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.Lines)
	return r
}

// sendBatch sends the request of a batch.
func sendBatch(t *testing.T, by http.RoundTripper, r *http.Request) (*http.Response, map[int]*api.BatchAnswer, map[int]time.Duration) {
	t.Helper()
	begun := time.Now()
	res, err := (&http.Client{Transport: by}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answers, after := map[int]*api.BatchAnswer{}, map[int]time.Duration{}
	for text := bufio.NewScanner(res.Body); res.StatusCode == http.StatusOK && text.Scan(); {
		var a api.BatchAnswer
		if err := json.Unmarshal(text.Bytes(), &a); err != nil || answers[a.Item] != nil {
			t.Fatalf("%s: %v; want an answer to each item", text.Text(), err)
		}
		if a.Error != nil && a.Error.Request != res.Header.Get(api.RequestID) {
			t.Errorf("%s; want the id of the request, %s", text.Text(), res.Header.Get(api.RequestID))
		}
		answers[a.Item], after[a.Item] = &a, time.Since(begun)
	}
	return res, answers, after
}

// told is what the answer to an item says: its code, or whether the claim holds, waits or left.
func told(a *api.BatchAnswer) string {
	switch {
	case a == nil:
		return "nothing"
	case a.Error != nil:
		return a.Error.Code
	case string(a.Answer) == `{"left":true}`:
		return "left"
	case strings.Contains(string(a.Answer), `"holds":true`):
		return "holds"
	}
	return "waits"
}

// Each item of a batch has its own rights, answer, event and measurement, as if it had come alone.
func TestBatch(t *testing.T) {
	var n notebook
	d := newDoor(map[string]server.Right{
		"ci": {Verbs: []server.Verb{server.Lock}, Prefix: "ci/"}, "ops": everything,
	})
	_, url := start(t, newFake(), &server.Options{Authenticate: d.authenticate, Audit: n.take})
	for who, c := range map[string]api.Claim{"ops": named("ci/b", "y"), "ci": named("ci/c", "x")} {
		if code, text := contract(t, url, who, api.Enter, &api.EnterRequest{Claim: c}); code != "" {
			t.Fatal(text)
		}
	}
	permits := named("ci/b", "z")
	permits.Weight, permits.Capacity = 1, 2
	lines := []string{
		entering(t, named("ci/a", "x")), entering(t, named("ci/b", "x")), entering(t, named("prod/a", "x")), leaving(t, named("prod/a", "x")),
		entering(t, permits), leaving(t, named("ci/c", "x")), entering(t, api.Claim{}),
		`{"enter":{"claim":{}},"leave":{"claim":{}}}`, `{}`, `{"enter":{"claim":{},"force":true}}`, `no JSON`, ``,
	}
	_, answers, _ := batch(t.Context(), t, bearer("ci"), url, append(lines, `{}`)...)
	for i, want := range []string{
		"holds", "waits", api.CodeForbidden, api.CodeForbidden, api.CodeCapacity, "left", api.CodeInvalid, api.CodeInvalid, api.CodeInvalid,
		api.CodeInvalid, api.CodeInvalid, api.CodeInvalid, api.CodeInvalid,
	} {
		if got := told(answers[i]); got != want {
			t.Errorf("item %d = %s; want %s", i, got, want)
		}
	}
	if e := answers[9].Error; !strings.Contains(e.Message, `"force"`) || e.Outcome != driver.OutcomeRefused.String() {
		t.Errorf("an unknown field = %+v; want a refusal that names it", e)
	}
	var events []string
	for _, e := range n.of(server.Took, server.Released, server.Refused) {
		events = append(events, fmt.Sprint(e.Action, " ", e.Name, " by ", e.Principal, ", ", e.Call))
	}
	for _, want := range []string{"take ci/a", "release ci/c", "refuse prod/a"} {
		if want += " by ci, POST /v1/batch"; !strings.Contains(strings.Join(events, "\n"), want) {
			t.Errorf("the events are %q; want %q", events, want)
		}
	}
	measured := simpleText(t, url, "ops", "/metrics")
	for _, want := range []string{
		`requests_total{request="POST /v1/batch",code="ok"} 1`, `requests_total{request="POST /v1/enter",code="capacity"} 1`,
		`requests_total{request="POST /v1/enter",code="forbidden"} 1`, `requests_total{request="POST /v1/leave",code="ok"} 1`,
		`requests_total{request="POST /v1/batch",code="invalid"} 6`,
	} {
		if !strings.Contains(measured, want) {
			t.Errorf("the measurements lack %s", want)
		}
	}
}

// simpleText returns the text at a path.
func simpleText(t *testing.T, url, principal, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := bearer(principal).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text strings.Builder
	if _, err := bufio.NewReader(res.Body).WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A batch has bounds, and a clear refusal beyond them.
func TestBatchBounds(t *testing.T) {
	_, url := start(t, memory.New(), nil)
	line := leaving(t, claim("x", 0))
	for what, tt := range map[string]struct {
		kind, text, says string
		status           int
	}{
		"too many":  {api.Lines, strings.Repeat(line+"\n", api.MaxItems+1), "at most 128 lines", 400},
		"too large": {api.Lines, strings.Repeat(" ", api.MaxRequest+1), "more than 1048576 bytes", 413},
		"one JSON":  {api.JSON, line, "must be " + api.Lines, 415},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+api.Batch, strings.NewReader(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", tt.kind)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var e api.Error
		err = json.NewDecoder(res.Body).Decode(&e)
		res.Body.Close()
		if err != nil || res.StatusCode != tt.status || e.Code != api.CodeInvalid || !strings.Contains(e.Message, tt.says) {
			t.Errorf("%s: %s, %+v, %v; want %d and %q", what, res.Status, e, err, tt.status, tt.says)
		}
	}
	for _, text := range []string{"", "\n"} {
		if _, answers, _ := batch(t.Context(), t, http.DefaultTransport, url, text); len(answers) != 1 || told(answers[0]) != api.CodeInvalid {
			t.Errorf("%q: %v; want one line that is invalid", text, answers)
		}
	}
	status, answers, _ := batch(t.Context(), t, http.DefaultTransport, url, strings.Split(strings.Repeat(line+"\n", api.MaxItems), "\n")...)
	if status != 200 || len(answers) != api.MaxItems {
		t.Errorf("%d lines with an end of line each: %d, %d answers; want all", api.MaxItems, status, len(answers))
	}
}

// A slowed store holds up Enters of the name slow, until go or the end of their contexts.
type slowed struct {
	*fake
	came, ended chan struct{}
	goOn        chan struct{}
}

func newSlowed() *slowed {
	f := &slowed{newFake(), make(chan struct{}, 2*server.MaxCalls), make(chan struct{}, 2*server.MaxCalls), make(chan struct{})}
	f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		if c.Name == "slow" {
			f.came <- struct{}{}
			select {
			case <-f.goOn:
			case <-ctx.Done():
				f.ended <- struct{}{}
				return driver.Place{}, driver.Ended(ctx, true)
			}
		}
		return f.Driver.Enter(ctx, c)
	}
	return f
}

// Trap: one call that hangs must not hold up the answers to the others. And a call about another claim to its name does not end it.
func TestBatchHasSlowItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSlowed()
		by := servingBy(t, newServer(t, f, nil))
		time.AfterFunc(time.Minute, func() { close(f.goOn) })
		_, answers, after := batch(t.Context(), t, by, inBubble,
			entering(t, named("slow", "x")), entering(t, named("a", "y")), entering(t, named("slow", "z")))
		if told(answers[1]) != "holds" || after[1] > 10*time.Millisecond {
			t.Errorf("a claim beside slow ones: %s after %v; want the lock within 10 ms", told(answers[1]), after[1])
		}
		for _, i := range []int{0, 2} {
			if answers[i] == nil || answers[i].Error != nil || after[i] < time.Minute {
				t.Errorf("a slow one: %s after %v; want a place after a minute", told(answers[i]), after[i])
			}
		}
	})
}

// An answer waits for others for 5 ms at most, however many come meanwhile.
func TestBatchAnswersGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			d, err := time.ParseDuration(c.Name)
			if err != nil {
				return driver.Place{}, err
			}
			time.Sleep(d)
			return f.Driver.Enter(ctx, c)
		}
		by := servingBy(t, newServer(t, f, nil))
		var lines []string
		for _, d := range []string{"0ms", "4ms", "8ms", "12ms"} {
			lines = append(lines, entering(t, named(d, "x")))
		}
		_, answers, after := batch(t.Context(), t, by, inBubble, lines...)
		for i, want := range []int64{5, 5, 12, 12} { // the last answer waits for nobody
			if got := after[i].Milliseconds(); told(answers[i]) != "holds" || got != want {
				t.Errorf("item %d: %s after %d ms; want the lock after %d", i, told(answers[i]), got, want)
			}
		}
	})
}

// An unwilling client takes no answer.
type unwilling struct{ *httptest.ResponseRecorder }

func (unwilling) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// If an answer cannot be sent, the calls that are under way end, whatever the program around the server.
func TestBatchAnswerIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSlowed()
		s := newServer(t, f, nil)
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, loopbackConn{}.LocalAddr())
		r := batchOf(ctx, t, inBubble, entering(t, named("slow", "x")), entering(t, named("a", "x")))
		r.RemoteAddr = loopbackConn{}.RemoteAddr().String()
		s.ServeHTTP(unwilling{httptest.NewRecorder()}, r)
		<-f.ended
	})
}

// If the client of a batch is gone, its calls end, and the next call about such a claim begins.
func TestBatchClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSlowed()
		by := servingBy(t, newServer(t, f, nil))
		abandon(t, by, f, 2)
		<-f.ended
		<-f.ended
		if _, answers, _ := batch(t.Context(), t, by, inBubble, leaving(t, named("slow", "0"))); told(answers[0]) != api.CodeGone {
			t.Errorf("the next call = %s; want the store's answer", told(answers[0]))
		}
	})
}

// abandon sends a batch of n slow Enters, and closes the connection when as many as there is room for have begun.
func abandon(t *testing.T, by http.RoundTripper, f *slowed, n int) {
	t.Helper()
	var lines []string
	for i := range n {
		lines = append(lines, entering(t, named("slow", fmt.Sprint(i))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, over := batchOf(ctx, t, inBubble, lines...), make(chan struct{})
	go func() {
		defer close(over)
		if res, err := by.RoundTrip(r); err == nil {
			res.Body.Close()
			t.Error("there is an answer")
		}
	}()
	synctest.Wait()
	cancel()
	<-over
}

// fill begins n slow calls in full batches. The group waits for their answers.
func fill(t *testing.T, by http.RoundTripper, f *slowed, n int) *sync.WaitGroup {
	t.Helper()
	full := new(sync.WaitGroup)
	for n := range n / api.MaxItems {
		full.Go(func() {
			var lines []string
			for i := range api.MaxItems {
				lines = append(lines, entering(t, named("slow", fmt.Sprint("full-", n, "-", i))))
			}
			if _, answers, _ := batch(t.Context(), t, by, inBubble, lines...); len(answers) != api.MaxItems {
				t.Errorf("%d answers; want all", len(answers))
			}
		})
	}
	for range n {
		<-f.came
	}
	return full
}

// A principal has three quarters of the room for calls, so that others get in while the store hangs. Above them, an item for a new claim
// is refused after a moment. Any other item waits.
func TestBatchesOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newSlowed(), newDoor(map[string]server.Right{"ci": everything, "ops": everything})
		by := servingBy(t, newServer(t, f, &server.Options{Authenticate: d.authenticate}))
		full := fill(t, as{"ci", by}, f, server.MaxCalls*3/4)
		for n := range server.MaxCalls / 4 / api.MaxItems { // the rest of the room
			full.Go(func() {
				var lines []string
				for i := range api.MaxItems {
					lines = append(lines, entering(t, named("slow", fmt.Sprint("more-", n, "-", i))))
				}
				_, answers, _ := batch(t.Context(), t, as{"ci", by}, inBubble, lines...)
				for _, a := range answers {
					if told(a) != api.CodeTooMany {
						t.Errorf("an item above the share = %s; want a refusal", told(a))
					}
				}
			})
		}
		synctest.Wait()
		_, answers, after := batch(t.Context(), t, as{"ops", by}, inBubble, entering(t, named("a", "x")))
		if told(answers[0]) != "holds" || after[0] > 10*time.Millisecond {
			t.Errorf("an item of another principal: %s after %v; want the lock within 10 ms", told(answers[0]), after[0])
		}
		full.Go(func() {
			_, answers, after := batch(t.Context(), t, as{"ci", by}, inBubble,
				entering(t, named("b", "x")), entering(t, named("c", "x")), leaving(t, named("d", "x")))
			for i := range 2 {
				if e := answers[i].Error; e == nil || e.Code != api.CodeTooMany || e.Outcome != driver.OutcomeUnsent.String() ||
					!strings.Contains(e.Message, "ci already has 1536 calls of batches") || answers[i].After != 1 ||
					after[i] < time.Second || after[i] > 1010*time.Millisecond {
					t.Errorf("item %d, for a new claim: %+v, again in %d s, after %v; want a refusal that names the bound, after 1 s", i, e, answers[i].After, after[i])
				}
			}
			if told(answers[2]) != api.CodeGone || after[2] < 2*time.Second {
				t.Errorf("an item that ends a claim: %s after %v; want the store's answer, when there is room", told(answers[2]), after[2])
			}
		})
		time.Sleep(2 * time.Second)
		close(f.goOn)
		full.Wait()
	})
}

// The calls of all batches have a bound. Above it an item waits, and if its client is gone meanwhile, it never begins.
func TestBatchesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSlowed()
		by := servingBy(t, newServer(t, f, nil))
		full := fill(t, by, f, server.MaxCalls)
		abandon(t, by, f, 20)
		full.Go(func() {
			if _, answers, _ := batch(t.Context(), t, by, inBubble, leaving(t, named("a", "y"))); told(answers[0]) != api.CodeGone {
				t.Errorf("a call that waits for room = %s; want the store's answer", told(answers[0]))
			}
		})
		synctest.Wait()
		close(f.goOn)
		full.Wait()
		synctest.Wait()
		if n := len(f.came); n > 0 {
			t.Errorf("%d calls of a client that is gone have begun", n)
		}
	})
}

// A call that panics has an unknown outcome and leaves its trace. The others and the service go on.
func TestBatchPanics(t *testing.T) {
	f := newFake()
	f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		if c.Name == "bad" {
			panic("a defect")
		}
		return f.Driver.Enter(ctx, c)
	}
	var said strings.Builder
	url := serve(t, newServer(t, f, nil), &said)
	for range 2 { // the second call about the claim gets its turn
		_, answers, _ := batch(t.Context(), t, http.DefaultTransport, url, entering(t, named("bad", "x")), entering(t, named("a", "x")))
		e := answers[0].Error
		if e == nil || e.Code != api.CodeFailed || e.Outcome != driver.OutcomeUnknown.String() || told(answers[1]) != "holds" {
			t.Errorf("a call that panics = %+v, the other = %s; want an unknown outcome, and the lock", e, told(answers[1]))
		}
	}
	if got := said.String(); strings.Count(got, "http: panic serving 127.0.0.1:") != 2 || !strings.Contains(got, "a defect") || !strings.Contains(got, "batch_test.go") {
		t.Errorf("the log is %q; want two panics and their traces", got)
	}
}

// If the store changes while an item waits for its turn, the item is refused. The others have their answers.
func TestItemIsForOtherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		d := &identified{fake: f, id: "A"}
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			if c.Name != "a" {
				time.Sleep(time.Second)
				return f.Driver.Enter(ctx, c)
			}
			time.Sleep(time.Millisecond) // b has begun
			d.id = "B"
			return driver.Place{}, driver.Unreachable(errors.New("the store has moved"))
		}
		by := servingBy(t, newServer(t, d, nil))
		r := batchOf(t.Context(), t, inBubble, entering(t, named("a", "x")), entering(t, named("a", "x")), entering(t, named("b", "x")))
		r.Header.Set(api.StoreID, "A")
		res, answers, _ := sendBatch(t, by, r)
		count := map[string]int{}
		for _, a := range answers {
			count[told(a)]++
		}
		if count[api.CodeFailed] != 1 || count[api.CodeStore] != 1 || count["holds"] != 1 || res.Close {
			t.Errorf("the answers are %v, and the connection ends: %v; want one failed, one for another store, and one that holds", count, res.Close)
		}
	})
}

// After a release that did not reach the store, the store's id is read again: another store may have taken its place.
func TestItemDoesNotReachStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		d := &identified{fake: f, id: "A"}
		f.leave = func(*driver.Release) error {
			d.id = "B"
			return driver.Unreachable(errors.New("the store has moved"))
		}
		by := servingBy(t, newServer(t, d, nil))
		for _, tt := range []struct {
			line   string
			status int
			want   string
		}{
			{leaving(t, named("a", "x")), http.StatusOK, api.CodeFailed}, {entering(t, named("a", "x")), http.StatusPreconditionFailed, "nothing"},
		} {
			r := batchOf(t.Context(), t, inBubble, tt.line)
			r.Header.Set(api.StoreID, "A")
			if res, answers, _ := sendBatch(t, by, r); res.StatusCode != tt.status || told(answers[0]) != tt.want {
				t.Errorf("%s = %s, %s; want %d, %s", tt.line, res.Status, told(answers[0]), tt.status, tt.want)
			}
		}
	})
}

// The bounds hold for each item. What ends a claim passes.
func TestBatchMeetsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, server.Options{MaxRate: 4, MaxClaims: 2}, "ci")
		lines := []string{leaving(t, named("a", "y"))}
		for i := range 5 {
			lines = append(lines, entering(t, named(fmt.Sprint("a", i), "x")))
		}
		count := map[string]int{}
		_, answers, _ := batch(t.Context(), t, as{"ci", l.by}, inBubble, lines...)
		for _, a := range answers {
			count[told(a)]++
			if told(a) == api.CodeTooMany && (a.Error.Outcome != driver.OutcomeUnsent.String() || a.After < 1 || a.After > 2) {
				t.Errorf("%+v, %+v; want unsent, and when to ask again", a, a.Error)
			}
		}
		if count[api.CodeGone] != 1 || count["holds"] != 2 || count[api.CodeTooMany] != 3 {
			t.Errorf("the answers are %v; want 1 gone, 2 hold, 3 too many", count)
		}
	})
}

// One call about a claim runs at a time, also within a batch. The next one ends it, since its client has given it up.
func TestBatchTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, calls := newFake(), make(chan struct{}, 1)
		f.enter = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
			select {
			case calls <- struct{}{}:
			default:
				t.Error("two calls about a claim run at a time")
			}
			time.Sleep(time.Millisecond)
			<-calls
			return f.Driver.Enter(ctx, c)
		}
		by := servingBy(t, newServer(t, f, nil))
		line := entering(t, claim("x", 0))
		_, answers, _ := batch(t.Context(), t, by, inBubble, line, line, line)
		got := map[string]int{}
		for i := range 3 {
			got[told(answers[i])]++
		}
		if got["holds"] != 1 || got["failed"] != 2 {
			t.Errorf("the answers are %v; want the lock for the last call, and no outcome for those before", got)
		}
	})
}

// A batch for another store is refused as a whole.
func TestBatchIsForOtherStore(t *testing.T) {
	_, url := start(t, &identified{fake: newFake(), id: "A"}, nil)
	r := batchOf(t.Context(), t, url, entering(t, claim("x", 0)))
	r.Header.Set(api.StoreID, "B")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var e api.Error
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Code != api.CodeStore || res.StatusCode != 412 {
		t.Errorf("%s, %+v, %v; want another store", res.Status, e, err)
	}
}
