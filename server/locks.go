package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// locksPath is the path of the simple API, for clients such as curl. A lock is a resource: PUT takes it, POST renews it,
// DELETE releases it, GET shows it. The lock's name follows in the path, or is the parameter name, since some proxies change
// a path.
const locksPath = "/v1/locks"

// maxWait bounds the wait of a request. The client measures the request and its lease by its own clock; over this time the
// drift of two clocks stays below a short lease: see valid.
const maxWait = 5 * time.Minute

const (
	defaultTTL = 15 * time.Second
	leastTTL   = time.Second
)

// A lockCall answers a request of the simple API with JSON, or with a failure.
type lockCall struct {
	parameters []string // in addition to the name
	gives      reflect.Type
	answer     func(*Server, context.Context, *lockRequest) (any, *failure)
}

func newLockCall[A any](answer func(*Server, context.Context, *lockRequest) (*A, *failure), parameters ...string) lockCall {
	return lockCall{parameters, reflect.TypeFor[A](), func(s *Server, ctx context.Context, q *lockRequest) (any, *failure) { return answer(s, ctx, q) }}
}

// lockCalls are the methods of the simple API.
var lockCalls = map[string]lockCall{
	http.MethodPut:    newLockCall((*Server).takeLock, "wait", "ttl", "shared", "permits", "of", "owner", "reason"),
	http.MethodPost:   newLockCall((*Server).renewLock, "ttl"),
	http.MethodDelete: newLockCall((*Server).releaseLock, "shared", "permits", "of"),
	http.MethodGet:    newLockCall((*Server).showLock),
}

// A lockRequest is a request of the simple API.
type lockRequest struct {
	*http.Request
	name    string
	query   url.Values
	arrived time.Time
}

// isLock reports whether a request belongs to the simple API.
func isLock(r *http.Request) bool {
	return r.URL.Path == locksPath || strings.HasPrefix(r.URL.Path, locksPath+"/")
}

// locks answers the simple API. It runs before the mux, which would redirect a name such as a//b to another name.
func (s *Server) locks(w http.ResponseWriter, r *http.Request) {
	q := &lockRequest{Request: r, arrived: time.Now()}
	call, ok := lockCalls[r.Method]
	if !ok {
		w.Header().Set("Allow", "DELETE, GET, POST, PUT")
		refuse(w, http.StatusMethodNotAllowed, api.CodeInvalid,
			errors.New("a lock is taken by PUT, renewed by POST, released by DELETE and shown by GET"))
		return
	}
	if r.ContentLength != 0 {
		refuse(w, http.StatusBadRequest, api.CodeInvalid,
			errors.New("a request about a lock has no body: what it asks for is in the URL, as in ?wait=30s"))
		return
	}
	var (
		a any
		f *failure
	)
	if err := q.read(call.parameters); err != nil {
		f = failed(invalid(err))
	} else {
		a, f = call.answer(s, r.Context(), q)
	}
	if f != nil {
		retryAfter(w, f.after)
		write(w, f.status, f)
		return
	}
	write(w, http.StatusOK, a)
}

// read parses the name and the parameters of a request.
func (q *lockRequest) read(known []string) error {
	values, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return errors.New("the URL's parameters cannot be read: a value with a special character is written as by curl -G " +
			"--data-urlencode")
	}
	q.query = values
	name, inPath := strings.CutPrefix(q.URL.Path, locksPath+"/")
	if !inPath {
		known = append([]string{"name"}, known...)
	}
	for key, all := range values {
		switch {
		case !slices.Contains(known, key):
			return fmt.Errorf("%s has no parameter %.40q; %s", q.Method, key, parameters(known))
		case len(all) > 1:
			return fmt.Errorf("the parameter %s is there %d times", key, len(all))
		}
	}
	if q.name = name; !inPath {
		q.name = values.Get("name")
	}
	if err := driver.CheckName(q.name); err != nil {
		return fmt.Errorf("%w: the lock's name follows %s/, or is the parameter name of %s", err, locksPath, locksPath)
	}
	return nil
}

// parameters says which parameters a request may have.
func parameters(known []string) string {
	if len(known) == 0 {
		return "it has none"
	}
	return "it may have " + strings.Join(known, ", ")
}

// duration returns a parameter that is a duration from least to most; without the parameter it returns otherwise.
func (q *lockRequest) duration(name string, otherwise, least, most time.Duration) (time.Duration, error) {
	if !q.query.Has(name) {
		return otherwise, nil
	}
	d, err := time.ParseDuration(q.query.Get(name))
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("%s is from %v to %v, a number with its unit, such as 1.5s, 30s or 2m", name, least, most)
	}
	return d, nil
}

// ttl returns the lease's length after each renewal: the parameter ttl, or otherwise, within the store's bounds.
func (q *lockRequest) ttl(s *Server, otherwise time.Duration) (time.Duration, error) {
	t := s.promises()
	least, most := max(leastTTL, t.MinTTL), min(t.MaxTTL, driver.MaxTTL)
	return q.duration("ttl", min(max(least, otherwise), most), least, most)
}

// number returns a parameter that is a number of permits from 1 to most; without the parameter it returns otherwise.
func (q *lockRequest) number(name string, otherwise, most int64) (int64, error) {
	if !q.query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(q.query.Get(name), 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is a number from 1 to %d", name, most)
	}
	return n, nil
}

// share returns the requested weight and the capacity of the name.
func (q *lockRequest) share() (weight, capacity int64, err error) {
	shared := q.query.Get("shared")
	if q.query.Has("shared") && shared != "true" && shared != "false" {
		return 0, 0, errors.New("shared is true or false")
	}
	switch {
	case q.query.Has("of") && shared == "true":
		return 0, 0, errors.New("shared does not go with permits and of: readers share without limit")
	case q.query.Has("permits") && !q.query.Has("of"):
		return 0, 0, errors.New("permits needs of, the number of permits that the name has")
	case shared == "true":
		return 1, driver.All, nil
	case !q.query.Has("of"):
		return driver.All, driver.All, nil
	}
	if capacity, err = q.number("of", 0, driver.All-1); err != nil {
		return 0, 0, err
	}
	weight, err = q.number("permits", 1, capacity)
	return weight, capacity, err
}

// handle returns the request's handle; without one, a handle with an empty id.
func (q *lockRequest) handle() (handle, error) {
	texts := q.Header.Values(handleHeader)
	switch len(texts) {
	case 0:
		return handle{}, nil
	case 1:
		return readHandle(texts[0])
	}
	return handle{}, fmt.Errorf("the header %s is there %d times", handleHeader, len(texts))
}

// claimed returns the handle of a PUT or DELETE. A handle from an answer already has the weight and capacity.
func (q *lockRequest) claimed() (handle, error) {
	h, err := q.handle()
	if err != nil {
		return h, err
	}
	weight, capacity, err := q.share()
	switch told := q.query.Has("shared") || q.query.Has("of"); {
	case err != nil:
		return h, err
	case h.ticket == 0:
		return handle{h.id, 0, weight, capacity, defaultTTL}, nil
	case told && (weight != h.weight || capacity != h.capacity):
		return h, errors.New("shared, permits and of are not those of the PUT that the handle comes from; leave them out")
	}
	return h, nil
}

// wanted returns the handle of a PUT, and how long it may wait.
func (q *lockRequest) wanted(s *Server) (h handle, wait time.Duration, err error) {
	if h, err = q.claimed(); err != nil {
		return h, 0, err
	}
	h.id = cmp.Or(h.id, rand.Text())
	if h.ttl, err = q.ttl(s, h.ttl); err != nil {
		return h, 0, err
	}
	wait, err = q.duration("wait", 0, 0, maxWait)
	return h, wait, err
}
