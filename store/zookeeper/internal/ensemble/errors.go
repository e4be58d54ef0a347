package ensemble

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// InVain reports whether a request was not sent, or its session is over: then its node does not exist, and never will.
func InVain(err error) bool {
	_, unsent := errors.AsType[*wire.Unsent](err)
	return unsent || errors.Is(err, wire.ErrExpired) || errors.Is(err, wire.ErrRefused)
}

// Explain turns an error of a session into one of the driver: its meaning, and whether the request may have been applied.
func (e *Ensemble) Explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	_, unsent := errors.AsType[*wire.Unsent](err)
	switch {
	case errors.Is(err, wire.ErrExpired):
		return driver.ErrSession
	case errors.Is(err, wire.ErrRefused):
		return driver.Refused(fmt.Errorf("zookeeper does not accept %s", e.Who()))
	case e.Ctx.Err() != nil && (unsent || errors.Is(err, wire.ErrClosed)):
		return driver.ErrClosed
	case e.Ctx.Err() != nil:
		return errors.New("the client was closed while zookeeper had the request")
	case ctx.Err() != nil:
		return driver.Ended(ctx, !unsent)
	}
	if _, ok := errors.AsType[*wire.DialError](err); ok && unsent {
		return driver.Unsent(driver.Unreachable(err))
	}
	if unsent {
		return driver.Unsent(driver.Unreachable(fmt.Errorf("zookeeper does not answer: %w", err)))
	}
	return driver.Unreachable(fmt.Errorf("the connection to zookeeper broke before the answer came: %w", err))
}

// Asking explains the error of a request about other sessions' claims: the end of this session shows nothing about them.
func Asking(err error) error {
	if errors.Is(err, driver.ErrSession) {
		return driver.Unreachable(errors.New("the session with zookeeper ended before the answer came"))
	}
	return err
}

// Refused explains the server's refusal of a request about a path by the table of faults. It returns nil for nil.
func (e *Ensemble) Refused(path string, err error) error {
	code, ok := errors.AsType[wire.Code](err)
	if !ok {
		return err
	}
	f, ok := faults[code]
	if !ok {
		f.says = fmt.Sprintf("zookeeper refused the request at {path}: %v", code)
	}
	err = errors.New(strings.NewReplacer("{user}", e.Who(), "{path}", Shown(path)).Replace(f.says))
	if f.passes {
		err = driver.Unreachable(err)
	}
	return driver.Refused(err)
}

// Undeleted is Refused for the removal of a node, which needs a right on the parent.
func (e *Ensemble) Undeleted(path string, err error) error {
	if !errors.Is(err, wire.NoAuth) {
		return e.Refused(path, err)
	}
	dir, _ := znode.Split(path)
	const says = "zookeeper does not let %s delete what is under %s: its access list has no such permission"
	return driver.Refused(fmt.Errorf(says, e.Who(), Shown(dir)))
}

// Final reports whether the server refused a request for good, so that a repeat changes nothing. ErrGone and ErrClosed are
// not final in this sense.
func Final(err error) bool {
	verdict := errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrClosed)
	return driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) && !verdict
}

// Who names the client in messages.
func (e *Ensemble) Who() string {
	if e.User == "" {
		return "a client without user and password"
	}
	return fmt.Sprintf("user %q", e.User)
}

// Shown quotes a path for a message if need be, since anybody may have named it.
func Shown(path string) string {
	quoted := strconv.Quote(path)
	if quoted[1:len(quoted)-1] == path {
		return path
	}
	return quoted
}
