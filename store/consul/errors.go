package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
)

// explain turns an error of the client into one of the driver, which tells whether the request may have been applied.
func (a *agent) explain(ctx context.Context, err error) error {
	if a.ctx.Err() != nil {
		return driver.Unknown(fmt.Errorf("%w while consul had the request", driver.ErrClosed))
	}
	if err := driver.Ended(ctx, true); err != nil {
		return err // the client wraps the cause, so this comes before anything that the error could say itself
	}
	if driver.NotApplied(err) {
		return err
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the address, which may tell more than it should
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return driver.Unsent(driver.Unreachable(fmt.Errorf("consul cannot be reached: %w", foreign(err))))
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case unknown || other || invalid:
		return driver.Refused(fmt.Errorf("the certificate of consul at %s is not trusted: %w", a.host, err))
	case plain || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return driver.Refused(fmt.Errorf("consul at %s does not speak TLS: use consul:// in place of consuls://", a.host))
	}
	return driver.Unreachable(fmt.Errorf("consul did not answer: %w", foreign(err)))
}

// foreign hides that an error is of a context, since it is not the caller's, and what is not fit to be shown.
func foreign(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	if strings.Contains(err.Error(), "readLoopPeekFail") { // what the library says of an answer that came before the request
		return errors.New("the server ended the connection at once: it may refuse more of them from here")
	}
	return err
}

// refused explains an answer that is an error, by the table of faults.
func (a *agent) refused(status int, text string) error {
	text = strings.Join(strings.Fields(text), " ")
	text = secure.Hide(text, a.token)
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	f := faultOf(status, text, a.token != "", a.dc != "")
	says := strings.ReplaceAll(f.says, "{host}", a.host)
	err := fmt.Errorf("%s (%s)", says, text)
	if text == "" {
		err = fmt.Errorf("%s (status %d)", says, status)
	}
	if f.passes {
		err = driver.Unreachable(err)
	}
	if f.outcome == driver.OutcomeRefused {
		err = driver.Refused(err)
	}
	return err
}
