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
		request = requestOf(w)
		answers = make(chan []byte, len(lines))
		gone    = ctx.Done()
		begun   = 0
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
	for answered := 0; answered < len(lines); {
		room := s.room
		if begun == len(lines) {
			room = nil
		}
		select {
		case room <- struct{}{}:
			go func(n int, line []byte) {
				defer func() { <-s.room }()
				answers <- s.item(ctx, request, n, line)
			}(begun, lines[begun])
			begun++
		case line := <-answers:
			if len(ready) == 0 {
				due.Reset(together)
			}
			ready = append(ready, line...)
			answered++
		case <-due.C:
			send()
		case <-gone:
			lines, gone = lines[:begun], nil // nobody reads the rest
		}
	}
	send()
}

// item makes the call of a batch's line, and returns the line of its answer.
func (s *Server) item(ctx context.Context, request string, n int, line []byte) []byte {
	a, counts := api.BatchAnswer{Item: n}, "ok"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = context.WithValue(ctx, cutKey{}, (func())(cancel))
	path, answer, err := s.carryOut(ctx, line)
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
