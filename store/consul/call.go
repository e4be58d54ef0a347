package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// patience bounds a call whose caller sets no bound, and the time that a blocking query takes beyond its wait.
	patience = 5 * time.Second

	// resendAfter is the time without an answer after which a request is sent once more. If the leader freezes, an agent
	// leaves the requests that it passed on to this leader unanswered for a minute; later requests go to the next leader.
	resendAfter = time.Second

	// maxCopies is how often a request is sent at most. The pauses double, so that a slow agent is not flooded.
	maxCopies = 4

	// maxAnswer is the largest size of an answer, in bytes.
	maxAnswer = 64 << 20
)

// An agent sends requests to Consul and explains the answers. It knows nothing of claims and sessions. Only its index
// changes once the driver is open.
type agent struct {
	ctx    context.Context // lasts as long as the driver
	client *http.Client
	owned  bool // the driver closes the client
	base   string
	host   string // for messages
	token  string

	dc, space string
	index     storeIndex
}

// A request is one HTTP call.
type request struct {
	method, path string // the path is below /v1/, escaped
	query        url.Values
	body         any  // sent as JSON; nil means nothing
	repeatable   bool // sent again after resendAfter; so it may be applied twice, and late
}

// A response is an answer whose body was read.
type response struct {
	status int
	index  uint64
	text   []byte
}

// call sends a request and returns the answer. An answer that is neither 2xx, 404 nor 409 is an error.
func (a *agent) call(ctx context.Context, q request) (*response, error) {
	if a.ctx.Err() != nil {
		return nil, driver.ErrClosed
	}
	if err := driver.Ended(ctx, false); err != nil {
		return nil, err
	}
	limit := patience
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	bounded, cancel := driver.WithPatience(ctx, limit, context.DeadlineExceeded)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	send := a.send
	if q.repeatable {
		send = a.insist
	}
	r, err := send(bounded, q)
	if err != nil {
		return nil, a.explain(ctx, err)
	}
	switch {
	case r.status/100 == 2, r.status == http.StatusNotFound, r.status == http.StatusConflict:
		return r, nil
	}
	return nil, a.refused(r.status, string(r.text))
}

// insist sends a request, and sends it again if no answer comes. The first answer counts.
func (a *agent) insist(ctx context.Context, q request) (r *response, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var copies sync.WaitGroup
	defer copies.Wait()
	defer cancel()
	type answer struct {
		*response
		error
	}
	answers := make(chan answer, maxCopies)
	pause, late := resendAfter, time.NewTimer(0)
	defer late.Stop()
	for sent, out := 0, 0; ; {
		select {
		case <-late.C:
			sent, out = sent+1, out+1
			copies.Go(func() {
				r, err := a.send(ctx, q)
				answers <- answer{r, err}
			})
			if sent < maxCopies {
				late.Reset(pause)
			}
			pause *= 2
		case first := <-answers:
			if out--; first.error == nil || out == 0 {
				return first.response, first.error
			}
		}
	}
}

func (a *agent) send(ctx context.Context, q request) (*response, error) {
	query := url.Values{}
	maps.Copy(query, q.query)
	if a.dc != "" {
		query.Set("dc", a.dc)
	}
	if a.space != "" {
		query.Set("ns", a.space)
	}
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, driver.Refused(err)
		}
		body = bytes.NewReader(text)
	}
	address := a.base + "/v1/" + q.path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	h, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, driver.Refused(err)
	}
	if a.token != "" {
		h.Header.Set("X-Consul-Token", a.token)
	}
	answer, err := a.client.Do(h)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(&coming{ctx, answer.Body}, maxAnswer))
	if err != nil {
		return nil, err
	}
	index, _ := strconv.ParseUint(answer.Header.Get("X-Consul-Index"), 10, 64) // 0 if the header is missing
	return &response{status: answer.StatusCode, index: index, text: text}, nil
}

// coming is the body of an answer that is on its way. It may be long, so each read shows that the server answers.
type coming struct {
	ctx  context.Context
	body io.Reader
}

func (c *coming) Read(into []byte) (int, error) {
	n, err := c.body.Read(into)
	driver.Heard(c.ctx, 0)
	return n, err
}

// decode reads the JSON of an answer.
func (r *response) decode(into any) error {
	if err := json.Unmarshal(r.text, into); err != nil {
		return fmt.Errorf("consul answered with something else than JSON (status %d): %w", r.status, err)
	}
	return nil
}

// A pair is a key with its value and its metadata.
type pair struct {
	Key         string
	Flags       uint64
	Value       []byte
	Session     string
	CreateIndex uint64
	ModifyIndex uint64
}

// read returns the keys that begin with a text, or one key, as a majority of the servers confirms them (consistent). With
// an index it returns when the keys differ from that index, or after the wait.
func (a *agent) read(
	ctx context.Context, key string, recurse bool, index uint64, wait time.Duration,
) ([]pair, uint64, error) {
	query := url.Values{}
	if recurse {
		query.Set("recurse", "")
	}
	if index > 0 {
		query.Set("index", strconv.FormatUint(index, 10))
		query.Set("wait", strconv.FormatInt(max(1, wait.Milliseconds()), 10)+"ms")
	} else {
		query.Set("consistent", "")
	}
	r, err := a.call(ctx, request{method: http.MethodGet, path: "kv/" + escape(key), query: query})
	if err != nil {
		return nil, 0, err
	}
	if r.status == http.StatusNotFound {
		return nil, r.index, nil
	}
	var pairs []pair
	err = r.decode(&pairs)
	driver.Heard(ctx, len(pairs))
	return pairs, r.index, err
}

// escape escapes a key for a path, and leaves its slashes.
func escape(key string) string { return (&url.URL{Path: "/" + key}).EscapedPath()[1:] }
