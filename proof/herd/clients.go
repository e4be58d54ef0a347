//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/remote" // of the scheme stile
)

// A plain sends requests of the simple API about one name.
type plain struct {
	lock string // URL
	by   *http.Client
}

// An answer has the fields of all answers.
type answer struct {
	status                       int
	Handle, Token, Code, Message string
	Valid                        int64             `json:"valid_ms"`
	Claims                       []json.RawMessage `json:"claims"`
}

func newPlain(at, name string) *plain {
	return &plain{"http://" + at + "/v1/locks/" + name, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

func (p *plain) do(ctx context.Context, method, query, handle string) (*answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.lock+query, nil)
	if err != nil {
		return nil, err
	}
	if handle != "" {
		r.Header.Set("Stile-Handle", handle)
	}
	res, err := p.by.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{status: res.StatusCode}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%s: %w", res.Status, err)
	}
	return a, nil
}

// again sleeps before a request is sent again.
func again(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// wait is a client: it waits for the lock, holds it for a moment, and releases it.
func (p *plain) wait(ctx context.Context, h *herd) {
	for handle := ""; ctx.Err() == nil; {
		a, err := p.do(ctx, http.MethodPut, "?wait=5m&ttl=30s", handle)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			h.note(0, 1, err.Error())
			again(ctx)
		case a.status == http.StatusOK:
			token, err := strconv.ParseInt(a.Token, 10, 64)
			if err != nil && a.Token != "" {
				h.note(0, 1, err.Error())
			}
			h.holds(token)
			p.give(ctx, h, a.Handle)
			return
		case a.status == http.StatusGone:
			h.note(1, 0, a.Message)
			handle = ""
		default:
			if handle = a.Handle; a.Code != "held" {
				h.note(0, 1, a.Code+": "+a.Message)
				again(ctx)
			}
		}
	}
}

// give releases the lock.
func (p *plain) give(ctx context.Context, h *herd, handle string) {
	for ctx.Err() == nil {
		a, err := p.do(ctx, http.MethodDelete, "", handle)
		if err == nil && (a.status == http.StatusOK || a.status == http.StatusGone) {
			return
		}
		if err == nil {
			err = errors.New(a.Message)
		}
		h.note(0, 1, err.Error())
		again(ctx)
	}
}

// until waits until so many claims are in the queue.
func (p *plain) until(ctx context.Context, within time.Duration, claims int) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	have := 0
	for {
		a, err := p.do(ctx, http.MethodGet, "", "")
		if err == nil {
			have = len(a.Claims)
		}
		if have >= claims {
			return nil
		}
		again(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("after %v the queue has %d claims", within, have)
		}
	}
}

// A holder holds the lock while the clients come and wait.
type holder struct {
	by     *plain
	handle string
	valid  time.Duration
}

func (p *plain) take(ctx context.Context) (*holder, error) {
	a, err := p.do(ctx, http.MethodPut, "", "")
	if err == nil && a.status == http.StatusOK {
		a, err = p.do(ctx, http.MethodPost, "?ttl=1m", a.Handle)
	}
	if err == nil && a.status != http.StatusOK {
		err = errors.New(a.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("the lock cannot be taken: %w", err)
	}
	return &holder{p, a.Handle, time.Duration(a.Valid) * time.Millisecond}, nil
}

// renew renews the lease until ctx ends. It returns an error if the lock is lost.
func (h *holder) renew(ctx context.Context) error {
	for end := time.Now().Add(h.valid); ; {
		select {
		case <-time.After(h.valid / 6):
		case <-ctx.Done():
			return nil
		}
		sent := time.Now()
		a, err := h.by.do(ctx, http.MethodPost, "", h.handle)
		switch {
		case err == nil && a.status == http.StatusOK:
			end = sent.Add(time.Duration(a.Valid) * time.Millisecond)
		case err == nil && a.status == http.StatusGone, time.Now().After(end):
			return errors.New("the lock was lost")
		}
	}
}

func (h *holder) release(ctx context.Context) error {
	a, err := h.by.do(ctx, http.MethodDelete, "", h.handle)
	if err == nil && a.status != http.StatusOK {
		err = errors.New(a.Message)
	}
	return err
}

// waitByGo is a client of package stile. Its place is lost when it is displaced.
func waitByGo(ctx context.Context, r *run, h *herd) {
	var c *stile.Client
	for c == nil && ctx.Err() == nil {
		var err error
		c, err = stile.Open(ctx, "stile://"+r.at+"?dial_timeout=1m", &stile.Options{
			Patience: time.Minute,
			Observer: func(e stile.Event) {
				if e.Kind == stile.EventDisplaced {
					h.note(1, 0, "displaced")
				}
			},
		})
		if err != nil {
			h.note(0, 1, err.Error())
			again(ctx)
		}
	}
	if c == nil {
		return
	}
	defer c.Close()
	l, err := c.Mutex(r.name).Lock(ctx)
	if err != nil {
		h.note(0, 1, err.Error())
		return
	}
	h.holds(l.Token())
	if err := l.Unlock(); err != nil {
		h.note(0, 1, err.Error())
	}
}
