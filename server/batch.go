package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

const (
	// together is how long an answer waits for other answers of its batch, to be sent with them.
	together = 5 * time.Millisecond

	// itemWithin is how long a batch waits for the store. The client of a single request ends it by closing the connection; a
	// batch goes on for the other items, and meanwhile holds up the next call about the same claim.
	itemWithin = 10 * time.Second
)

var errSlow = fmt.Errorf("the store did not answer the lock service within %v", itemWithin)

// batch makes the calls of a batch side by side, and answers each when it returns. A slow call delays no other answer.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, api.Lines)
	if !ok || !s.meant(w, r) {
		return
	}
	body = bytes.TrimSuffix(body, []byte("\n"))
	n := bytes.Count(body, []byte("\n")) + 1
	if len(body) == 0 {
		n = 0
	}
	if n == 0 || n > api.MaxItems {
		s.fail(w, invalid(fmt.Errorf("a batch has from 1 to %d lines; this one has %d", api.MaxItems, n)))
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), itemWithin, errSlow)
	defer cancel()
	var (
		out     = s.stream(w, api.Lines)
		request = requestOf(w)
		answers = make(chan []byte, n)
		ready   []byte
		due     = time.NewTimer(together) // when the ready answers must go
	)
	defer due.Stop()
	for i, line := range bytes.Split(body, []byte("\n")) {
		go func() { answers <- s.item(ctx, request, i, line) }()
	}
	send := func() {
		if len(ready) > 0 && !out.write(string(ready)) {
			cancel() // the client is gone
		}
		ready = ready[:0]
	}
	for left := n; left > 0; {
		select {
		case line := <-answers:
			if len(ready) == 0 {
				due.Reset(together)
			}
			ready, left = append(ready, line...), left-1
		case <-due.C:
			send()
		}
	}
	send()
}

// item makes the call of a batch's line, and returns the line of its answer.
func (s *Server) item(ctx context.Context, request string, n int, line []byte) []byte {
	a, counts := &api.BatchAnswer{Item: n}, "ok"
	path, err := s.carryOut(ctx, line, a)
	if err != nil {
		if errors.Is(err, errSlow) {
			err = driver.Unreachable(err)
		}
		s.identity.heed(err)
		a.Error, a.After = s.errorOf(err), int(afterOf(err).Seconds())
		a.Error.Request, counts = request, a.Error.Code
	}
	s.metrics.Requests.Add(1, "POST "+path, counts)
	text, err := json.Marshal(a)
	if err != nil { // the call may have been applied
		text, _ = json.Marshal(&api.BatchAnswer{Item: n, Error: api.NewError(driver.Unknown(err))}) // plain text has no error
	}
	return append(text, '\n')
}

// carryOut makes the call of a batch's line, and returns the path of such a request.
func (s *Server) carryOut(ctx context.Context, line []byte, a *api.BatchAnswer) (path string, err error) {
	var q api.BatchItem
	switch err := decode(line, &q); {
	case err != nil:
		return api.Batch, invalid(fmt.Errorf("the line is not that of a batch: %w", err))
	case (q.Enter == nil) == (q.Leave == nil):
		return api.Batch, invalid(errors.New("a line of a batch has either enter or leave"))
	case q.Enter != nil:
		a.Place, err = s.enter(ctx, q.Enter)
		return api.Enter, err
	}
	a.Left, err = s.leave(ctx, q.Leave)
	return api.Leave, err
}
