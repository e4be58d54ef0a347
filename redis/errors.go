package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// unsent marks the error of a request that never left, since there was no connection to send it on.
type unsent struct{ error }

func (u *unsent) Unwrap() error { return u.error }

// explain turns an error of the client into one of the driver: who refused, what it means, whether the request may have
// been applied. The scripts write once and last, so a request that the server answered with an error was not applied.
func (d *Driver) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if refusal, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return d.refused(refusal.Error())
	}
	if errors.Is(err, driver.ErrClosed) {
		return err
	}
	if _, ok := errors.AsType[*dialError](err); ok {
		return driver.Unsent(driver.Unreachable(err))
	}
	if d.ctx.Err() != nil {
		return errors.New("the client was closed while redis had the request")
	}
	_, unsent := errors.AsType[*unsent](err)
	if ctx.Err() != nil {
		return driver.Ended(ctx, !unsent)
	}
	if unsent {
		return driver.Unsent(driver.Unreachable(fmt.Errorf("redis does not answer: %w", foreign(err))))
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return driver.Unsent(driver.Unreachable(err))
	}
	return driver.Unreachable(fmt.Errorf("the connection to redis broke before the answer came: %w", foreign(err)))
}

// foreign hides that an error is of a context: it is of another call's.
func foreign(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// refused explains an error that the server answered.
func (d *Driver) refused(text string) error {
	text, _, _ = strings.Cut(text, ", with args beginning with") // which may be a password
	text, _, _ = strings.Cut(text, " script: ")                  // and a digest and a line, which help nobody
	text = strings.Join(strings.Fields(text), " ")
	for _, secret := range d.secret {
		text = strings.ReplaceAll(text, secret, "…")
	}
	code, _, _ := strings.Cut(text, " ")
	later := func(what string) error {
		return driver.Refused(driver.Unreachable(fmt.Errorf("%s (%s)", what, text)))
	}
	never := func(what string) error { return driver.Refused(fmt.Errorf("%s (%s)", what, text)) }
	switch {
	case code == "LOADING":
		return later("redis is still reading its data")
	case code == "CLUSTERDOWN":
		return later("the redis cluster does not serve this name at the moment")
	case code == "MASTERDOWN":
		return later("redis is a replica that has lost its primary")
	case code == "TRYAGAIN", code == "ASK":
		return later("the redis cluster is moving this name to another server")
	case code == "BUSY":
		return later("redis is busy with another's script")
	case code == "NOREPLICAS":
		return later("redis has too few replicas in step to accept writes")
	case code == "MISCONF":
		return never("redis accepts no writes, since it cannot save its data")
	case code == "READONLY" && d.client.Mode() != rueidis.ClientModeStandalone:
		return later("redis is a replica here: a failover is under way")
	case code == "READONLY":
		return never("redis is a replica here, which accepts no writes: use the address of the primary, or redis+sentinel://")
	case strings.Contains(text, "data string too short"):
		return driver.ErrForeign
	case code == "MOVED":
		return never("redis is a cluster here: use redis+cluster://")
	case code == "OOM":
		return never("redis has no memory left for a new claim: raise maxmemory, or free some")
	case code == "WRONGPASS", strings.Contains(text, "invalid password"):
		return never(fmt.Sprintf("redis does not accept %s with this password", d.who()))
	case code == "NOAUTH":
		return never("redis asks for a password: put it in the URL as redis://user:password@host")
	case code == "NOPERM", strings.Contains(text, "ACL failure"), strings.Contains(text, "has no permissions"),
		strings.Contains(text, "can't run this command"), strings.Contains(text, "can't access"):
		return never(fmt.Sprintf("redis does not let %s do this; the package documentation of redis lists the rights", d.who()))
	case strings.Contains(text, "DB index is out of range"):
		return never("redis has no database of this number")
	}
	return never("redis refused the request")
}

func (d *Driver) who() string {
	if d.user == "" {
		return "the default user"
	}
	return fmt.Sprintf("user %q", d.user)
}
