package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/secure"
)

// A request is one that each sends to the hosts in turn.
type request struct {
	method, path string
	body         []byte
	answer       api.Answer // of a request that call sends
	store        string     // id of the store that the request is meant for; "" for any
	alone        bool       // it has a connection of its own
	shared       bool       // it was last sent in a batch
}

// call sends a request and decodes its answer into a.
func (c *client) call(ctx context.Context, path string, q any, a api.Answer) error {
	body, err := api.Compose(q)
	if err != nil {
		return err
	}
	r := &request{method: http.MethodPost, path: path, body: body, answer: a}
	return c.each(ctx, r, func(x *exchange, res *http.Response) error { return x.decode(res, a) })
}

// each sends a request to the hosts in turn, for the store that the client knows, and read takes the answer. If none takes it, and
// one is busy, it sends the request again after a pause.
func (c *client) each(ctx context.Context, q *request, read func(*exchange, *http.Response) error) error {
	if q.path != api.Traits && q.path != api.Identity {
		q.store = c.stores.current()
	}
	for {
		err := c.inTurn(ctx, q, read)
		if errors.Is(err, api.ErrOtherStore) {
			return c.resend(ctx, q, err, read)
		}
		busy, refused := errors.AsType[*busyError](err)
		if !refused || q.path == api.Await || !c.pause(ctx, busy.after) {
			return err
		}
	}
}

// inTurn sends a request to the first host, and read takes the answer. While the outcome is unsent, or the host serves another
// store, inTurn tries the next host, but an Enter goes to no host after one that serves another store. A host that is silent,
// cannot be reached, cannot reach its store or serves another store is no longer the first. If no host takes the request, the
// error is that of the busy host that may be asked again first, or else that of the last one.
func (c *client) inTurn(ctx context.Context, q *request, read func(*exchange, *http.Response) error) error {
	var least *busyError
	for left := len(c.hosts); ; left-- {
		unsent, err := c.first(ctx, q, read)
		if !unsent {
			return err
		}
		if busy, is := errors.AsType[*busyError](err); is && (least == nil || busy.after < least.after) {
			least = busy
		}
		switch {
		case left > 1:
		case least != nil:
			return least
		default:
			return err
		}
	}
}

// first sends a request to the first host. It reports whether another host may be asked.
func (c *client) first(ctx context.Context, q *request, read func(*exchange, *http.Response) error) (unsent bool, err error) {
	c.mu.Lock()
	i := c.host
	c.mu.Unlock()
	begun := time.Now()
	if q.path == api.Enter || q.path == api.Leave {
		err = c.gatherers[i].send(ctx, q, read)
	} else {
		err = c.exchange(ctx, c.hosts[i], q, read)
	}
	if err == nil || c.closed() {
		return false, err
	}
	other := errors.Is(err, api.ErrOtherStore)
	unsent = (driver.OutcomeOf(err) == driver.OutcomeUnsent || other && q.path != api.Enter) && ctx.Err() == nil
	if other {
		c.stores.suspect()
	}
	if unsent || other || q.silent(ctx, begun) || driver.IsUnreachable(err) && ctx.Err() == nil {
		c.mu.Lock()
		if c.host == i {
			c.host = (i + 1) % len(c.hosts)
		}
		c.mu.Unlock()
	}
	return unsent, err
}

// slow is the least silence, when the caller gives up, after which a host counts as silent.
const slow = 250 * time.Millisecond

// silent reports whether the caller gave up a request after a long silence of the host. The request may have been sent, so
// inTurn does not send it again. But the host may be frozen, and nothing else would show that, so the next request goes to
// another host. Only waits normally end without an answer. A deadline proves no silence for a call that shares its request.
func (q *request) silent(ctx context.Context, begun time.Time) bool {
	if ctx.Err() == nil {
		return false
	}
	end, bounded := ctx.Deadline()
	waits := q.path == api.Await || q.path == api.Alerts || q.method == http.MethodGet
	return bounded && !q.shared && !time.Now().Before(end) || errors.Is(context.Cause(ctx), errSilent) || !waits && time.Since(begun) >= slow
}

func (c *client) closed() bool { return c.life.Context().Err() != nil }

// An exchange is a request to one host, and its answer.
type exchange struct {
	c      *client
	caller context.Context
	host   string
	sent   bool // it got a connection, so a part of the request may have left
}

// exchange sends a request to a host, and read takes the answer.
func (c *client) exchange(ctx context.Context, host string, q *request, read func(*exchange, *http.Response) error) error {
	x := &exchange{c: c, caller: ctx, host: host}
	if c.closed() || ctx.Err() != nil {
		return x.failed(driver.ErrClosed)
	}
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.life.Context(), cancel)
	defer stop()
	traced := httptrace.WithClientTrace(until, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.sent = true }})
	r, err := http.NewRequestWithContext(traced, q.method, host+q.path, bytes.NewReader(q.body))
	if err != nil {
		return driver.Refused(err)
	}
	switch {
	case q.path == api.Batch:
		r.Header.Set("Content-Type", api.Lines)
	case q.method == http.MethodPost:
		r.Header.Set("Content-Type", api.JSON)
	}
	if q.store != "" {
		r.Header.Set(api.StoreID, q.store)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	transport := c.transport
	if q.alone {
		transport = c.alone
	}
	// An http.Client would follow a redirect and send the request a second time.
	res, err := transport.RoundTrip(r)
	if err != nil {
		return x.failed(err)
	}
	defer res.Body.Close()
	err = read(x, res)
	if err == nil {
		c.heard(res.Header.Get(api.TraitsTag))
	}
	return err
}

// decode decodes an answer in one piece into a.
func (x *exchange) decode(res *http.Response, a api.Answer) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, api.MaxAnswer+1))
	if err != nil {
		return x.failed(err)
	}
	if res.StatusCode != http.StatusOK || kindOf(res) != api.JSON || json.Unmarshal(text, a) != nil || !a.Whole() {
		return x.refused(res, text)
	}
	switch a := a.(type) {
	case *api.TraitsAnswer:
		x.c.learn(a, res.Header.Get(api.TraitsTag))
	case *api.RenewAnswer:
		if err := a.Unreachable(); err != nil { // another host may reach the store
			a.Renewals = nil // otherwise fields that the next answer omits would keep their values
			return err
		}
	}
	return nil
}

// name returns the host as people see it.
func (x *exchange) name() string { return bare(x.host) }

// bare returns a host without the scheme.
func bare(host string) string {
	_, name, _ := strings.Cut(host, "://")
	return name
}

// failed returns the error of an unfinished exchange.
func (x *exchange) failed(err error) error {
	if ended := driver.Ended(x.caller, x.sent); ended != nil {
		return ended
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(plain.RecordHeader[:]) == "HTTP/" {
		return driver.Refused(fmt.Errorf("the lock service at %s does not speak TLS: use stile:// in place of stiles://", x.name()))
	}
	if x.c.closed() {
		err = driver.ErrClosed
	} else {
		err = driver.Unreachable(fmt.Errorf("the lock service at %s: %w", x.name(), err))
	}
	if x.sent {
		return driver.Unknown(err)
	}
	return driver.Unsent(err)
}

// plainToTLS begins the answer of a Go server with TLS to a client without.
const plainToTLS = "Client sent an HTTP request to an HTTPS server"

// refused returns the error of an unexpected answer. An answer that is not the service's own comes from something between,
// such as a proxy: the outcome of the request is unknown.
func (x *exchange) refused(res *http.Response, text []byte) error {
	if res.StatusCode != http.StatusOK {
		if e, ok := api.ReadError(text); ok {
			return x.c.refusal(e, res.Header.Get("Retry-After"))
		}
	}
	if res.StatusCode == http.StatusBadRequest && bytes.HasPrefix(text, []byte(plainToTLS)) {
		return driver.Refused(fmt.Errorf("the lock service at %s requires TLS: use stiles:// in place of stile://", x.name()))
	}
	err := fmt.Errorf("at %s there is an answer that is not a lock service's: %s", x.name(), res.Status)
	if res.StatusCode >= http.StatusInternalServerError {
		err = driver.Unreachable(err)
	}
	return driver.Unknown(err)
}

// refusal returns the error of an answer, with its Retry-After.
func (c *client) refusal(e *api.Error, after string) error {
	e.Message = secure.Hide(e.Message, c.token)
	if e.Code == api.CodeTooMany {
		return &busyError{e.Err(), retryAfter(after)}
	}
	return e.Err()
}

// kindOf returns the media type of an answer, or "".
func kindOf(res *http.Response) string {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// errCut is the error of a truncated answer in parts.
var errCut = errors.New("the answer ended too soon")
