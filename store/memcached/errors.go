package memcached

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stilelock/stile/driver"
)

// An unsent error says that a request never left.
type unsent struct{ error }

func (u *unsent) Unwrap() error { return u.error }

// An ended error says that a caller's context has ended, and the outcome of its request.
type ended struct{ error }

// explain turns the error of a connection into an error of the driver, marked with its outcome.
func (l *link) explain(err error) error {
	if e, ok := errors.AsType[*ended](err); ok {
		return e.error
	}
	u, definite := errors.AsType[*unsent](err)
	if definite {
		err = u.error
	}
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		return nil
	case isRefusal:
		return refused.explain()
	case errors.Is(err, driver.ErrClosed) && definite:
		return driver.ErrClosed
	case errors.Is(err, driver.ErrClosed):
		return errors.New("the client was closed while memcached had the request")
	case errors.Is(err, driver.ErrForeign):
		return err
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("memcached closed it")
	}
	err = driver.Unreachable(fmt.Errorf("the connection to memcached at %s broke before the answer came: %w", l.addr, err))
	if definite {
		return driver.Unsent(err)
	}
	return err
}

// explainRead is explain for a read after a change: a refused read does not mean that the change was refused.
func (l *link) explainRead(changed bool, err error) error {
	if err = l.explain(err); changed {
		return driver.Afterwards(err)
	}
	return err
}

// full reports whether the server refused a request for lack of memory.
func full(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && strings.Contains(r.text, "out of memory")
}

// explain explains an error from the server. The server has then not applied the request.
func (r *refusal) explain() error {
	text := r.text
	switch {
	case strings.Contains(text, "out of memory"):
		return driver.Refused(fmt.Errorf("memcached has no memory left for a claim: give it more, "+
			"or let it evict other things (%s)", text))
	case strings.Contains(text, "too large"):
		return driver.Refused(fmt.Errorf("the queue is longer than memcached's largest item: raise its option -I (%s)", text))
	case strings.Contains(text, "unauthenticated"):
		return driver.Refused(fmt.Errorf("memcached asks for a password: put it in the URL as memcached://user:password@host (%s)",
			text))
	}
	return driver.Refused(fmt.Errorf("memcached refused the request (%s)", text))
}
