package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/stilelock/stile/driver"
)

// explain turns an error of the client into one of the driver, which tells whether the request may have been applied.
func (d *Driver) explain(ctx context.Context, err error) error {
	if d.ctx.Err() != nil {
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
		return driver.Refused(fmt.Errorf("the certificate of consul at %s is not trusted: %w", d.host, err))
	case plain || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return driver.Refused(fmt.Errorf("consul at %s does not speak TLS: use consul:// in place of consuls://", d.host))
	}
	return driver.Unreachable(fmt.Errorf("consul did not answer: %w", foreign(err)))
}

// foreign hides that an error is of a context: it is not the caller's.
func foreign(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// refused explains an answer that is an error.
func (d *Driver) refused(status int, text string) error {
	text = strings.Join(strings.Fields(text), " ")
	if d.token != "" {
		text = strings.ReplaceAll(text, d.token, "…")
	}
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	err := func(what string) error {
		if text == "" {
			return fmt.Errorf("%s (status %d)", what, status)
		}
		return fmt.Errorf("%s (%s)", what, text)
	}
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("ACL not found"), has("token does not exist"):
		return driver.Refused(err("consul does not know this token"))
	case status == http.StatusForbidden && d.token == "":
		return driver.Refused(err("consul does not let a client without a token do this: put one in the URL as consul://:token@host"))
	case status == http.StatusForbidden, has("Permission denied"):
		return driver.Refused(err("consul does not let this token do this; the package documentation of consul lists the rights"))
	case status == http.StatusTooManyRequests:
		return driver.Refused(driver.Unreachable(err("consul refuses more requests or connections from here for the moment")))
	case has("Missing node registration") && d.dc != "":
		return driver.Refused(err("consul makes sessions in the datacenter of the agent alone: use an agent of the other"))
	case has("No cluster leader"), has("No known Consul servers"), has("Missing node registration"):
		return driver.Refused(driver.Unreachable(err("consul has no leader at the moment")))
	case has("No path to datacenter"):
		return driver.Refused(err("consul knows no way to this datacenter"))
	case has("HTTP request to an HTTPS server"):
		return driver.Refused(fmt.Errorf("consul at %s speaks TLS: use consuls:// in place of consul://", d.host))
	case status/100 == 5 && !has("Invalid Session TTL"):
		return driver.Unreachable(err("consul could not do it"))
	}
	return driver.Refused(err("consul refused the request"))
}
