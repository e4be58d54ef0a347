package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// together is how long an answer waits for other answers of its batch, to be sent with them.
const together = 5 * time.Millisecond

// batch makes the calls of a batch side by side, and answers each when it returns: a slow call delays no other answer. If the
// client closes the connection, all calls end. The next call about a claim ends one that the client has given up meanwhile.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, api.Lines)
	if !ok || !s.meant(w, r) {
		return
	}
	lines := bytes.SplitN(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"), api.MaxItems+1)
	if len(lines) > api.MaxItems {
		s.fail(w, invalid(fmt.Errorf("a batch has at most %d lines", api.MaxItems)))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var (
		out     = s.stream(w, api.Lines)
		answers = make(chan []byte, len(lines))
		ready   []byte
		due     = time.NewTimer(together) // when the ready answers must go
	)
	defer due.Stop()
	send := func() {
		if len(ready) > 0 && !out.write(string(ready)) {
			cancel() // the client is gone
		}
		ready = ready[:0]
	}
	go s.items(ctx, requestOf(w), lines, answers)
	for answered := 0; answered < len(lines); {
		select {
		case line := <-answers:
			if len(ready) == 0 {
				due.Reset(together)
			}
			ready = append(ready, line...)
			answered++
		case <-due.C:
			send()
		}
	}
	send()
}

// items begins the calls of a batch one after the other, each when there is room for it. An item for a new claim, which may as well ask
// another server, is refused if there is none soon. The answer to each item follows when its call returns; it is empty if the client is
// gone before the call begins.
func (s *Server) items(ctx context.Context, request string, lines [][]byte, answers chan<- []byte) {
	brief, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	for n, line := range lines {
		end, err := s.limits.call(callerOf(ctx), func(room chan<- struct{}) bool {
			if try(room) {
				return true
			}
			if isNew(line) {
				return during(brief)(room)
			}
			return during(ctx)(room)
		})
		gone := ctx.Err() != nil
		if gone && err == nil {
			end()
		}
		switch {
		case gone:
			answers <- nil
		case err != nil:
			answers <- s.itemAnswer(request, n, api.Enter, nil, err)
		default:
			go func() {
				defer end()
				answers <- s.item(ctx, request, n, line)
			}()
		}
	}
}

// isNew reports whether a line of a batch is for a claim that has not entered yet.
func isNew(line []byte) bool {
	var q api.BatchItem
	return decode(line, &q) == nil && q.Enter != nil && q.Enter.Claim.Ticket == 0
}

// item makes the call of a batch's line, and returns the line of its answer.
func (s *Server) item(ctx context.Context, request string, n int, line []byte) []byte {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = context.WithValue(ctx, cutKey{}, (func())(cancel))
	path, answer, err := s.carryOut(ctx, line)
	return s.itemAnswer(request, n, path, answer, err)
}

// itemAnswer returns the line of the answer to an item.
func (s *Server) itemAnswer(request string, n int, path string, answer any, err error) []byte {
	a, counts := api.BatchAnswer{Item: n}, "ok"
	if err == nil {
		a.Answer, err = json.Marshal(answer)
	}
	if err != nil {
		s.identity.heed(err)
		a.Error, a.After = s.errorOf(err), int(afterOf(err).Seconds())
		a.Error.Request, counts = request, a.Error.Code
	}
	s.metrics.Requests.Add(1, "POST "+path, counts)
	text, _ := json.Marshal(a) // its fields are numbers and text
	return append(text, '\n')
}

// carryOut makes the call of a batch's line. It also returns the path of such a request. net/http recovers only the panic of a
// handler.
func (s *Server) carryOut(ctx context.Context, line []byte) (path string, answer any, err error) {
	path = api.Batch
	defer func() {
		if v := recover(); v != nil {
			err = panicked(ctx, v)
		}
	}()
	var q api.BatchItem
	switch err := decode(line, &q); {
	case err != nil:
		return path, nil, invalid(fmt.Errorf("the line is not that of a batch: %w", err))
	case (q.Enter == nil) == (q.Leave == nil):
		return path, nil, invalid(errors.New("a line of a batch has either enter or leave"))
	case q.Enter != nil:
		path = api.Enter
		answer, err = s.enter(ctx, q.Enter)
		return path, answer, err
	}
	path = api.Leave
	answer, err = s.leave(ctx, q.Leave)
	return path, answer, err
}

// panicked logs a panic as net/http logs that of a handler, and returns the error of its call.
func panicked(ctx context.Context, v any) error {
	printf := log.Printf
	if web, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && web.ErrorLog != nil {
		printf = web.ErrorLog.Printf
	}
	printf("http: panic serving %s: %v\n%s", callerOf(ctx).r.RemoteAddr, v, debug.Stack())
	return driver.Unknown(errors.New("the lock service failed, and has logged why"))
}
