package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/guardtest"
	"github.com/stilelock/stile/store/memory"
)

// marksFunc is marks whose answers a test chooses.
type marksFunc func(resource string, token int64) error

func (f marksFunc) Raise(_ context.Context, resource string, token int64) error {
	return f(resource, token)
}

// echo returns the request's token in a header.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	resource, token := guard.Incoming(r.Context())
	w.Header().Set("Ran", resource+" "+guard.FormatToken(token))
})

func TestHandler(t *testing.T) {
	var (
		seven = &guard.Memory{}
		down  = marksFunc(func(string, int64) error { return errors.New("password=secret") })
		named = &guard.HandlerOptions{Resource: func(r *http.Request) (string, error) {
			if name := r.URL.Query().Get("name"); name != "" {
				return name, nil
			}
			return "", errors.New("which?")
		}}
		reads = &guard.HandlerOptions{Optional: guard.Reads}
	)
	if err := seven.Raise(t.Context(), "/a", 7); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		method string
		url    string
		tokens []string
		o      *guard.HandlerOptions
		marks  guard.Marks
		status int
		ran    string // the token that the inner handler saw; empty means that it must not run
		body   string // is in the answer
	}{
		{"equal", "PUT", "/a", []string{"7"}, nil, seven, 200, "/a 7", ""},
		{"highest", "PUT", "/b", []string{"9223372036854775807"}, nil, seven, 200, "/b 9223372036854775807", ""},
		{"stale", "PUT", "/a", []string{"6"}, nil, seven, 409, "", `"resource":"/a","token":"6","newer":"7"`},
		{"stale, read", "GET", "/a", []string{"6"}, reads, seven, 409, "", `"newer":"7"`},
		{"none", "PUT", "/a", nil, nil, seven, 428, "", "Stile-Token"},
		{"none, read", "GET", "/a", nil, nil, seven, 428, "", "Stile-Token"},
		{"none, optional for reads", "GET", "/a", nil, reads, seven, 200, " 0", ""},
		{"none, a write where reads need none", "PUT", "/a", nil, reads, seven, 428, "", ""},
		{"empty", "PUT", "/a", []string{""}, reads, seven, 400, "", ""},
		{"empty, optional", "GET", "/a", []string{""}, reads, seven, 400, "", ""},
		{"zero", "PUT", "/a", []string{"0"}, nil, seven, 400, "", ""},
		{"negative", "PUT", "/a", []string{"-7"}, nil, seven, 400, "", ""},
		{"too large", "PUT", "/a", []string{"9223372036854775808"}, nil, seven, 400, "", ""},
		{"words", "PUT", "/a", []string{"<b>"}, nil, seven, 400, "", ""},
		{"list", "PUT", "/a", []string{"7, 8"}, nil, seven, 400, "", ""},
		{"two", "PUT", "/a", []string{"7", "8"}, nil, seven, 400, "", ""},
		{"long", "PUT", "/a", []string{strings.Repeat("1", 10000)}, nil, seven, 400, "", ""},
		{"resource by option", "PUT", "/?name=x", []string{"7"}, named, seven, 200, "x 7", ""},
		{"no resource", "PUT", "/", []string{"7"}, named, seven, 400, "", "which?"},
		{"bad resource", "PUT", "/?name=a%00b", []string{"7"}, named, seven, 400, "", ""},
		{"long resource", "PUT", "/" + strings.Repeat("n", 255), []string{"7"}, nil, seven, 400, "", ""},
		{"marks fail", "PUT", "/a", []string{"7"}, nil, down, 503, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.url, nil)
			for _, token := range tt.tokens {
				r.Header.Add("stile-token", token)
			}
			w := httptest.NewRecorder()
			guard.NewHandler(echo, tt.marks, tt.o).ServeHTTP(w, r)
			body := w.Body.String()
			if w.Code != tt.status || w.Header().Get("Ran") != tt.ran || !strings.Contains(body, tt.body) {
				t.Errorf("got %d, ran %q, %s\nwant %d, ran %q, %s", w.Code, w.Header().Get("Ran"), body, tt.status, tt.ran, tt.body)
			}
			if tt.status == 200 {
				return
			}
			var problem struct{ Status int }
			if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Status != tt.status || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("the answer is no problem document with its status: %v, %v, %s", err, w.Header(), body)
			}
			if strings.Contains(body, "secret") || len(body) > 1000 {
				t.Errorf("the answer says too much: %s", body)
			}
		})
	}
}

func TestHandlerTellsFailures(t *testing.T) {
	failure := errors.New("down")
	var told error
	h := guard.NewHandler(echo, marksFunc(func(string, int64) error { return failure }), &guard.HandlerOptions{
		Failed: func(_ *http.Request, err error) { told = err },
	})
	r := httptest.NewRequest("PUT", "/a", nil)
	r.Header.Set(guard.Header, "1")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !errors.Is(told, failure) {
		t.Errorf("Failed was told %v, want %v", told, failure)
	}
}

// The mark is raised before the handler runs: while a request is in progress, a lower token is already refused.
func TestHandlerRaisesFirst(t *testing.T) {
	var h http.Handler
	send := func(token string) int {
		r := httptest.NewRequest("PUT", "/a", nil)
		r.Header.Set(guard.Header, token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	within := 0
	h = guard.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, token := guard.Incoming(r.Context()); token == 2 {
			within = send("1")
		}
	}), &guard.Memory{}, nil)
	if code := send("2"); code != 200 || within != 409 {
		t.Errorf("got %d, and %d for a lower token meanwhile; want 200 and 409", code, within)
	}
}

func TestTransport(t *testing.T) {
	locks, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get(guard.Header))
	}))
	defer server.Close()
	client := &http.Client{Transport: &guard.Transport{}}
	send := func(ctx context.Context, token string) error {
		body := &closes{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(ctx, "PUT", server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set(guard.Header, token)
		}
		response, err := client.Do(r)
		if err == nil {
			response.Body.Close()
		}
		if !body.closed {
			t.Error("the body of a request was left open")
		}
		if got := r.Header.Get(guard.Header); got != token {
			t.Errorf("the caller's request has token %q now", got)
		}
		return err
	}
	if err := send(t.Context(), ""); !errors.Is(err, guard.ErrNoToken) {
		t.Errorf("outside a lease: %v, want ErrNoToken", err)
	}
	join := stile.Join(locks.Mutex("a"), locks.Mutex("b"))
	if err := join.Do(t.Context(), func(ctx context.Context) error { return send(ctx, "") }); !errors.Is(err, guard.ErrNoToken) {
		t.Errorf("under a joined lock: %v, want ErrNoToken", err)
	}
	if seen != nil {
		t.Errorf("requests without a token were sent: %q", seen)
	}
	var token string
	if err := locks.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
		token = guard.FormatToken(stile.Token(ctx))
		return errors.Join(send(ctx, ""), send(ctx, "42"))
	}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] != token || seen[1] != "42" {
		t.Errorf("the server saw %q, want %q and 42", seen, token)
	}
}

// closes is a body that records whether it was closed.
type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error { c.closed = true; return nil }

func TestResponseError(t *testing.T) {
	stale := `{"type":"urn:stile:guard:stale","status":409,"resource":"a","token":"1","newer":"9223372036854775807"}`
	for _, tt := range []struct {
		name       string
		status     int
		kind, body string
		want       *guard.StaleError
	}{
		{"stale", 409, "application/problem+json", stale, &guard.StaleError{Resource: "a", Token: 1, Newer: 1<<63 - 1}},
		{"with a charset", 409, "application/problem+json; charset=utf-8", stale, &guard.StaleError{Resource: "a", Token: 1, Newer: 1<<63 - 1}},
		{"success", 200, "application/problem+json", stale, nil},
		{"another's conflict", 409, "application/problem+json", `{"type":"about:blank"}`, nil},
		{"another's text", 409, "text/plain", stale, nil},
		{"no JSON", 409, "application/problem+json", "no", nil},
		{"endless", 409, "application/problem+json", stale[:len(stale)-1] + strings.Repeat(" ", 100000) + "}", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.kind}}, Body: io.NopCloser(strings.NewReader(tt.body))}
			err := guard.ResponseError(r)
			got, _ := errors.AsType[*guard.StaleError](err)
			if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want || got == nil && err != nil {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if body, err := io.ReadAll(r.Body); string(body) != tt.body || err != nil {
				t.Errorf("the body is %.80q, %v afterwards", body, err)
			}
		})
	}
}

// A paused holder sends its request late, to a server that keeps balances.
func TestHTTPLateWrite(t *testing.T) {
	var balance [2]int
	serve := func(i int) *httptest.Server {
		balance[i] = 100
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Method {
			case http.MethodGet:
				_ = json.NewEncoder(w).Encode(balance[i])
			case http.MethodPut:
				if err := json.NewDecoder(r.Body).Decode(&balance[i]); err != nil {
					t.Error(err)
				}
			}
		})
		if i == 1 {
			h = guard.NewHandler(h, &guard.Memory{}, nil)
		}
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server
	}
	account := func(server *httptest.Server) guardtest.Account {
		send := func(ctx context.Context, method string, token int64, body io.Reader) (n int, err error) {
			r, err := http.NewRequestWithContext(ctx, method, server.URL+"/ann", body)
			if err != nil {
				return 0, err
			}
			if err := guard.SetToken(r, token); err != nil {
				return 0, err
			}
			response, err := server.Client().Do(r)
			if err != nil {
				return 0, err
			}
			defer response.Body.Close()
			if err := guard.ResponseError(response); err != nil || method == http.MethodPut {
				return 0, err
			}
			err = json.NewDecoder(response.Body).Decode(&n)
			return n, err
		}
		return guardtest.Account{
			Read: func(ctx context.Context, token int64) (int, error) {
				return send(ctx, http.MethodGet, token, nil)
			},
			Write: func(ctx context.Context, token int64, balance int) error {
				text, err := json.Marshal(balance)
				if err != nil {
					return err
				}
				_, err = send(ctx, http.MethodPut, token, strings.NewReader(string(text)))
				return err
			},
		}
	}
	guardtest.LateIsRefused(t, account(serve(0)), account(serve(1)), func(guarded bool) int {
		if guarded {
			return balance[1]
		}
		return balance[0]
	})
}
