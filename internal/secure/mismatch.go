package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// Servers are the servers of a store's URL, and how to speak to them.
type Servers struct {
	Store    string   // the store's name, for messages
	Hosts    []string // each with its port
	TLS      bool     // whether the URL asks for TLS
	Scheme   string   // the URL's
	Instead  string   // the scheme with TLS, or without, in place of the URL's
	Greeting string   // the first answer of a server without TLS to any client
}

// hesitation is how long opening a store may take before the servers are asked whether they speak TLS.
const hesitation = 250 * time.Millisecond

// askWithin bounds the question to one server.
var askWithin = time.Second

// Open opens a store, and explains a failure that TLS causes. A server without TLS may take the start of a handshake for
// half a command, and wait for the rest; a server with TLS ends a connection that begins otherwise. So Open asks servers
// that fail or are slow whether they speak TLS. If they contradict the URL, the error is definite and names the scheme to
// use.
func Open[D any](ctx context.Context, s *Servers, open func(context.Context) (D, error)) (D, error) {
	opening, end := context.WithCancelCause(ctx)
	defer end(nil)
	asked := make(chan struct{})
	slow := time.AfterFunc(hesitation, func() {
		defer close(asked)
		if err := s.mismatch(opening); err != nil {
			end(err)
		}
	})
	d, err := open(opening)
	if err == nil {
		slow.Stop()
		return d, nil
	}
	switch asks := !slow.Stop(); {
	case !driver.IsUnreachable(err):
	case asks:
		<-asked
	default:
		end(s.mismatch(ctx))
	}
	if why, ok := errors.AsType[*mismatchError](context.Cause(opening)); ok {
		return d, driver.Refused(why)
	}
	return d, err
}

// A mismatchError names a server that contradicts the URL about TLS.
type mismatchError struct {
	s    *Servers
	host string
}

func (e *mismatchError) Error() string {
	format := "%s at %s requires TLS: use %s:// in place of %s://"
	if e.s.TLS {
		format = "%s at %s does not speak TLS: use %s:// in place of %s://"
	}
	return fmt.Sprintf(format, e.s.Store, e.host, e.s.Instead, e.s.Scheme)
}

// mismatch returns a mismatchError if one of the servers contradicts the URL about TLS.
func (s *Servers) mismatch(ctx context.Context) error {
	ask := requiresTLS
	if s.TLS {
		ask = s.speaksPlainly
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answers := make([]bool, len(s.Hosts))
	var all sync.WaitGroup
	for i, host := range s.Hosts {
		all.Go(func() { answers[i] = ask(ctx, host) })
	}
	all.Wait()
	if i := slices.Index(answers, true); i >= 0 {
		return &mismatchError{s, s.Hosts[i]}
	}
	return nil
}

// speaksPlainly reports whether a server answers the greeting with plain text. A server with TLS answers with an
// alert, or with an HTTP error that says so.
func (s *Servers) speaksPlainly(ctx context.Context, host string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	_ = conn.SetDeadline(until) // a connection that takes none fails below
	if _, err := conn.Write([]byte(s.Greeting)); err != nil {
		return false
	}
	answer := make([]byte, 512)
	n, err := conn.Read(answer)
	text := string(answer[:n])
	return n > 0 && err == nil && text[0] >= ' ' && text[0] <= '~' && !strings.Contains(text, "HTTP/1.0 400")
}

// requiresTLS reports whether a server answers a handshake, also with an untrusted certificate or an alert.
func requiresTLS(ctx context.Context, host string) bool {
	conn, err := (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", host)
	if err == nil {
		conn.Close()
		return true
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	op, ok := errors.AsType[*net.OpError](err)
	return untrusted || ok && op.Op == "remote error"
}
