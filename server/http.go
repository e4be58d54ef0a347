package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

const (
	readWithin  = 10 * time.Second // for the body of a request to arrive
	writeWithin = 30 * time.Second // for a client to accept a part of an answer
	listWithin  = 2 * time.Minute  // for a client to accept a whole list, which the server keeps until then
)

// read decodes a request from its body, or refuses it. It refuses unknown fields: they may ask for a power that this server
// lacks.
func read(w http.ResponseWriter, r *http.Request, q any) bool {
	body, ok := readBody(w, r, api.JSON)
	if !ok {
		return false
	}
	if err := decode(body, q); err != nil {
		refuse(w, http.StatusBadRequest, api.CodeInvalid, fmt.Errorf("the request's body is not that of %s: %w", r.URL.Path, err))
		return false
	}
	return true
}

// readBody reads the body of a request, which must be of a media type, or refuses the request.
func readBody(w http.ResponseWriter, r *http.Request, must string) (body []byte, ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != must {
		refuse(w, http.StatusUnsupportedMediaType, api.CodeInvalid, errors.New("the Content-Type of the request must be "+must))
		return nil, false
	}
	// A body that never ends keeps its connection no longer than this. At the end of the body net/http removes the limit, since
	// a long wait may follow.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(readWithin)) // this fails in a program with its own limits
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxRequest))
	unlimitWrite(rc)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, http.StatusRequestEntityTooLarge, api.CodeInvalid,
			fmt.Errorf("the request has more than %d bytes", tooLarge.Limit))
		return nil, false
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // another host may be nearer
		e := api.NewError(driver.Unreachable(driver.Unsent(fmt.Errorf("the request's body did not arrive within %v", readWithin))))
		sendAway(w, e.Status(), e)
		return nil, false
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, api.CodeInvalid, errors.New("the request's body did not arrive"))
		return nil, false
	}
	return body, true
}

// decode decodes a request from JSON, and refuses further text after it.
func decode(body []byte, q any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON")
	}
	return nil
}

// errorOf returns an error in the form of an answer.
func errorOf(err error) *api.Error {
	if no, ok := errors.AsType[*refusal](err); ok {
		e := api.NewError(driver.Refused(no))
		e.Code = no.code
		return e
	}
	return api.NewError(err)
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, err error) {
	w.Header().Set(api.TraitsTag, s.traits().Tag())
	e := s.errorOf(err)
	retryAfter(w, afterOf(err))
	s.identity.heed(err)
	if e.Code == api.CodeStore { // behind a balancer, another connection may lead to the right store
		w.Header().Set("Connection", "close")
	}
	write(w, e.Status(), e)
}

// refuse refuses a request and closes its connection, since the rest of the body may never come.
func refuse(w http.ResponseWriter, status int, code string, err error) {
	e := api.NewError(driver.Refused(err))
	e.Code = code
	sendAway(w, status, e)
}

// sendAway writes an answer and closes the connection.
func sendAway(w http.ResponseWriter, status int, a any) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // so that net/http does not read the rest of the body
	write(w, status, a)
}

// write sends an answer.
func write(w http.ResponseWriter, status int, a any) {
	switch a := a.(type) {
	case *api.Error:
		a.Request = requestOf(w)
		noteCode(w, a.Code)
	case *failure:
		a.Request = requestOf(w)
		noteCode(w, a.Code)
	}
	text, err := json.Marshal(a)
	if err == nil && len(text) >= api.MaxAnswer {
		err = fmt.Errorf("the answer has %d bytes; the limit is %d", len(text)+1, api.MaxAnswer)
	}
	if err != nil { // the request may have been applied
		e := api.NewError(driver.Unknown(err))
		status, e.Request = e.Status(), requestOf(w)
		noteCode(w, e.Code)
		text, _ = json.Marshal(e)
	}
	send(w, status, api.JSON, append(text, '\n')) // for a person with curl
}

// send sends an answer in one piece, of a media type; "" for an answer without a text.
func send(w http.ResponseWriter, status int, kind string, text []byte) {
	limitWrite(http.NewResponseController(w))
	h := w.Header()
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone needs no answer
}

// requestOf returns the id of the request that is being answered.
func requestOf(w http.ResponseWriter) string { return w.Header().Get(api.RequestID) }

func limitWrite(rc *http.ResponseController)   { _ = rc.SetWriteDeadline(time.Now().Add(writeWithin)) }
func unlimitWrite(rc *http.ResponseController) { _ = rc.SetWriteDeadline(time.Time{}) }

// forwarding are the headers by which a proxy shows itself.
var forwarding = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// admitted refuses requests for a foreign Host, which a page of another site may have sent by DNS rebinding. Without an
// Authenticator it also refuses requests from outside this machine.
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.knowsHost(r)
		if s.authenticate == nil {
			err = fromLoopback(r)
		}
		if err != nil {
			s.turnAway(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// turnAway refuses a request because of where it comes from.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	err = &refusal{api.CodeForbidden, err}
	(&caller{s: s, r: r}).refused("", err)
	refuse(w, http.StatusForbidden, api.CodeForbidden, err)
}

// knowsHost returns an error if a request's Host is not this server. An address as the Host is safe: DNS rebinding needs a
// name. With TLS every name is safe: the client has checked that the certificate is for the name that it asks for.
func (s *Server) knowsHost(r *http.Request) error {
	if r.TLS != nil {
		return nil
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || loopback(name) {
		return nil
	}
	for _, host := range s.hosts {
		if strings.EqualFold(host, strings.TrimSuffix(name, ".")) {
			return nil
		}
	}
	return errors.New("the lock service does not serve this Host")
}

// fromLoopback returns an error if a request may come from another machine. A proxy on this machine has a loopback address
// too, but its headers, or HTTP/1.0, give it away.
func fromLoopback(r *http.Request) error {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch {
	case local == nil || !loopback(local.String()) || !loopback(r.RemoteAddr):
		return errors.New("without credentials the lock service serves only its own machine, on a loopback address")
	case !loopback(r.Host):
		return errors.New("without credentials the lock service serves only requests to localhost or a loopback address: " +
			"the Host is another")
	case !r.ProtoAtLeast(1, 1): // nginx forwards by HTTP/1.0 by default, with its own Host and no other trace
		return errors.New("without credentials the lock service serves no proxy, and HTTP/1.0 may come from one: ask by HTTP/1.1")
	}
	for _, name := range forwarding {
		if len(r.Header.Values(name)) > 0 { // an empty one too: a proxy may add its own after a client's
			return fmt.Errorf("without credentials the lock service serves no proxy: the request has the header %s", name)
		}
	}
	return nil
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
