package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unsent marks the error of a request that came before the request for the key. The latter was then not sent.
type unsent struct{ error }

func (u *unsent) Unwrap() error { return u.error }

// explain turns an error of the client library into an error of the driver, which says what happened, and is marked with the
// request's outcome. ctx is the caller's.
func (w *wire) explain(ctx context.Context, err error) error {
	if err == nil || driver.NotApplied(err) || driver.IsUnreachable(err) {
		return err
	}
	if first, ok := errors.AsType[*unsent](err); ok {
		return driver.NotYet(w.explain(ctx, first.error))
	}
	refusal, answered := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	switch {
	case answered && status.Code(err) != codes.Canceled && status.Code(err) != codes.DeadlineExceeded:
		return w.refused(refusal)
	case w.ctx.Err() != nil:
		return errors.New("the client was closed while etcd had the request")
	case ctx.Err() != nil:
		return driver.Ended(ctx, true)
	case errors.Is(err, errSilent):
		return driver.Unreachable(errSilent)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		status.Code(err) == codes.DeadlineExceeded || status.Code(err) == codes.Canceled:
		return driver.Unreachable(errors.New("etcd gave no answer in time"))
	}
	return w.broke(err)
}

// broke explains an error of the connection, by its text where the library has nothing better.
func (w *wire) broke(err error) error {
	text := w.clean(status.Convert(err).Message())
	if _, why, ok := strings.Cut(text, "Error while dialing: "); ok {
		return driver.Unsent(driver.Unreachable(fmt.Errorf("etcd cannot be reached: %s", strings.TrimSuffix(why, `"`))))
	}
	if _, why, ok := strings.Cut(text, "authentication handshake failed: "); ok {
		why = strings.TrimSuffix(why, `"`)
		return driver.Unsent(driver.Unreachable(fmt.Errorf("etcd cannot be reached by TLS: %s", why)))
	}
	if own, ok := strings.CutPrefix(text, "etcdserver: "); ok && status.Code(err) == codes.Unavailable {
		return driver.Unreachable(fmt.Errorf("etcd does not serve at the moment (%s)", own)) // the library does not know it
	}
	if status.Code(err) == codes.Unavailable {
		return driver.Unreachable(fmt.Errorf("the connection to etcd broke before the answer came: %s", text))
	}
	return fmt.Errorf("etcd: %s", text)
}

// refused explains a server's error, by the table of faults.
func (w *wire) refused(refusal rpctypes.EtcdError) error {
	if errors.Is(refusal, rpctypes.ErrLeaseNotFound) {
		return driver.ErrSession
	}
	f, ok := faults[refusal]
	switch {
	case ok:
	case refusal.Code() == codes.Unavailable:
		f = fault{says: "etcd does not serve at the moment", outcome: driver.OutcomeUnknown, passes: true}
	default:
		f = fault{says: "etcd refused the request", outcome: driver.OutcomeRefused}
	}
	says := strings.NewReplacer("{user}", w.who(), "{prefix}", strconv.Quote(w.prefix)).Replace(f.says)
	err := fmt.Errorf("%s (%s)", says, w.clean(strings.TrimPrefix(refusal.Error(), "etcdserver: ")))
	if f.passes {
		err = driver.Unreachable(err)
	}
	if f.outcome == driver.OutcomeRefused {
		err = driver.Refused(err)
	}
	return err
}

// clean puts a foreign message on one line, and hides the password.
func (w *wire) clean(text string) string {
	return secure.Hide(strings.Join(strings.Fields(text), " "), w.secret)
}

func (w *wire) who() string {
	if w.user == "" {
		return "a client without a user"
	}
	return fmt.Sprintf("user %q", w.user)
}
