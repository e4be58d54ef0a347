package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

type (
	lister  struct{ *client }
	watcher struct{ *client }
	breaker struct{ *client }
)

// able returns the driver with the optional interfaces of the service's store.
func (c *client) able(t *api.TraitsAnswer) driver.Driver {
	l, w, b := lister{c}, watcher{c}, breaker{c}
	switch {
	case t.Lists && t.Watches && t.Breaks:
		return &struct {
			*client
			driver.Lister
			driver.Watcher
			driver.Breaker
		}{c, l, w, b}
	case t.Lists && t.Watches:
		return &struct {
			*client
			driver.Lister
			driver.Watcher
		}{c, l, w}
	case t.Lists && t.Breaks:
		return &struct {
			*client
			driver.Lister
			driver.Breaker
		}{c, l, b}
	case t.Watches && t.Breaks:
		return &struct {
			*client
			driver.Watcher
			driver.Breaker
		}{c, w, b}
	case t.Lists:
		return &struct {
			*client
			driver.Lister
		}{c, l}
	case t.Watches:
		return &struct {
			*client
			driver.Watcher
		}{c, w}
	case t.Breaks:
		return &struct {
			*client
			driver.Breaker
		}{c, b}
	}
	return c
}

// Identity is [driver.Identifier.Identity]: the id of the service's store.
func (c *client) Identity(ctx context.Context) (string, error) {
	var a api.IdentityAnswer
	err := c.call(ctx, api.Identity, api.Nothing{}, &a)
	return a.Identity, err
}

// Break is [driver.Breaker.Break].
func (b breaker) Break(ctx context.Context, q *driver.BreakRequest) (driver.ClaimInfo, error) {
	if err := text(q.Name); err != nil {
		return driver.ClaimInfo{}, err
	}
	var a api.BreakAnswer
	r := &api.BreakRequest{Name: q.Name, Ticket: q.Ticket, Ask: q.Ask, Record: []byte(q.Record)}
	if err := b.call(ctx, api.Break, r, &a); err != nil {
		return driver.ClaimInfo{}, err
	}
	return a.Claim.Driver(), nil
}

// text refuses a name that is not valid UTF-8, since JSON would change it.
func text(name string) error {
	if !utf8.ValidString(name) {
		return driver.Refused(errors.New("the name is not valid UTF-8"))
	}
	return nil
}

// List is [driver.Lister.List]. The answer comes in parts.
func (l lister) List(ctx context.Context, q *driver.Query) (list []driver.Listing, err error) {
	if err := text(q.Name + q.Prefix); err != nil {
		return nil, err
	}
	body, err := api.Compose(&api.ListRequest{Name: q.Name, Prefix: q.Prefix})
	if err != nil {
		return nil, err
	}
	err = l.each(ctx, &request{method: http.MethodPost, path: api.List, body: body}, func(x *exchange, res *http.Response) error {
		if res.StatusCode != http.StatusOK || kindOf(res) != api.Lines {
			head, _ := io.ReadAll(io.LimitReader(res.Body, api.MaxAnswer)) // a truncated text is not the service's
			return x.refused(res, head)
		}
		list, err = x.listings(ctx, res.Body)
		return err
	})
	return list, err
}

// listings reads the answer to a List, line by line.
func (x *exchange) listings(ctx context.Context, body io.Reader) (list []driver.Listing, err error) {
	most := &io.LimitedReader{R: body, N: x.c.mostList}
	for d := json.NewDecoder(most); ; {
		var part api.ListPart
		err := d.Decode(&part)
		switch {
		case err != nil && most.N <= 0:
			return nil, driver.Refused(fmt.Errorf("the list of the lock service at %s has more than %d MiB: ask for the names "+
				"with a longer prefix",
				x.name(), x.c.mostList>>20))
		case errors.Is(err, io.EOF):
			return nil, x.failed(errCut)
		case err != nil:
			return nil, x.failed(err)
		}
		switch {
		case part.End:
			_, _ = d.Token() // reads the end of the body, so that the next request can reuse the connection
			return list, nil
		case part.Error != nil:
			return nil, part.Error.Err()
		case part.Listing != nil:
			list = append(list, part.Listing.Driver())
		default:
			driver.Heard(ctx, part.Heard)
		}
	}
}

// errSilent is the error of a stream of events without a sign of life.
var errSilent = errors.New("it does not say that it is alive")

// Watch is [driver.Watcher.Watch].
func (w watcher) Watch(ctx context.Context, name string, changed func()) error {
	if err := text(name); err != nil {
		return err
	}
	q := &request{method: http.MethodGet, path: api.Watch + "?name=" + url.QueryEscape(name)}
	return w.follow(ctx, q, func(event, _ string) {
		if event == api.EventChanged {
			changed()
		}
	})
}

// follow makes a request whose answer is events, and calls heed for each until the answer ends. A service that is silent for
// a while counts as dead.
func (c *client) follow(ctx context.Context, q *request, heed func(event, data string)) error {
	heeded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(c.silence, func() { cancel(errSilent) })
	defer silent.Stop()
	err := c.each(heeded, q, func(x *exchange, res *http.Response) error {
		if res.StatusCode != http.StatusOK || kindOf(res) != api.Events {
			head, _ := io.ReadAll(io.LimitReader(res.Body, api.MaxAnswer))
			return x.refused(res, head)
		}
		return x.events(res.Body, func() { silent.Reset(c.silence) }, heed)
	})
	if heeded.Err() != nil && ctx.Err() == nil && !c.closed() {
		return driver.Unreachable(errSilent)
	}
	return err
}

// events reads events until they end, and returns the reason.
func (x *exchange) events(body io.Reader, alive func(), heed func(event, data string)) error {
	event := ""
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		alive()
		data, isData := strings.CutPrefix(lines.Text(), api.EventData)
		switch {
		case !isData:
			event = lines.Text()
		case event != api.EventEnd:
			heed(event, data)
		default:
			if e, ok := api.ReadError([]byte(data)); ok {
				return e.Err()
			}
			return x.failed(errCut)
		}
	}
	if err := lines.Err(); err != nil {
		return x.failed(err)
	}
	return x.failed(errCut)
}
