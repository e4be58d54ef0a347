package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/stilelock/stile"
)

// SetToken puts a token into the header of a request, and replaces one that is there. The error is [ErrNoToken] if the token
// is not positive.
func SetToken(r *http.Request, token int64) error {
	if err := positive(r.URL.Path, token); err != nil {
		return err
	}
	r.Header.Set(Header, FormatToken(token))
	return nil
}

// A Transport sends each request with the token of the lease in the request's context, as stile.Token returns it. It keeps a
// token that is already in the header. It does not send a request without a token: the error is [ErrNoToken].
type Transport struct {
	Base http.RoundTripper // sends the requests; nil means http.DefaultTransport
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if r.Header.Get(Header) == "" {
		// A transport must not change the request.
		with := r.Clone(r.Context())
		if err := SetToken(with, stile.Token(r.Context())); err != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
		r = with
	}
	return base.RoundTrip(r)
}

// maxProblem bounds the part of a problem document that is read.
const maxProblem = 16 << 10

// ResponseError returns the [StaleError] of a response in which a [Handler] refused a stale token, and nil for every other
// response, even for another failure. The body can be read afterwards, and the caller must close it.
func ResponseError(r *http.Response) error {
	if r.StatusCode != http.StatusConflict || !isProblem(r.Header.Get("Content-Type")) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxProblem))
	r.Body = rest{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	if err != nil {
		return fmt.Errorf("guard: reading a refusal: %w", err)
	}
	var p problem
	if _ = json.Unmarshal(body, &p); p.Type != staleType { // a text that is no problem document has no type
		return nil
	}
	token, _ := ParseToken(p.Token)
	newer, _ := ParseToken(p.Newer)
	return &StaleError{p.Resource, token, newer}
}

func isProblem(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == problemType
}

// A rest is a body, a part of which was read already.
type rest struct {
	io.Reader
	io.Closer
}
