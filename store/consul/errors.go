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

// explain turns an error of the client into an error of the driver, marked with its outcome.
func (a *agent) explain(ctx context.Context, err error) error {
	if a.ctx.Err() != nil {
		return driver.Unknown(fmt.Errorf("%w while consul had the request", driver.ErrClosed))
	}
	if err := driver.Ended(ctx, true); err != nil {
		return err // checked first: the client wraps the cause, which may be any error
	}
	if driver.NotApplied(err) {
		return err
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the address, which may contain a secret
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

// foreign hides that an error is a context's error, since the caller's context has not ended. It also hides texts that users
// should not see.
func foreign(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	if strings.Contains(err.Error(), "readLoopPeekFail") { // the library's words for an answer that came before the request
		return errors.New("the server ended the connection at once: it may refuse more of them from here")
	}
	return err
}

// refused explains an error answer by the table of faults.
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
