package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// unsent marks the error of a request that never left, since there was no connection to send it on.
type unsent struct{ error }

func (u *unsent) Unwrap() error { return u.error }

// explain turns an error of the client into an error of the driver: who refused, the meaning, and the outcome. The scripts
// write once and last, so a request that the server answered with an error was not applied.
func (c *Conn) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if rueidis.IsRedisNil(err) || rueidis.IsParseErr(err) { // the request has no such answer
		return c.Mixed()
	}
	if refusal, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return c.refused(refusal.Error())
	}
	if errors.Is(err, driver.ErrClosed) {
		return err
	}
	if errors.Is(err, errNoRoom) {
		return c.refused(noRoom)
	}
	if _, ok := errors.AsType[*dialError](err); ok {
		return driver.Unsent(driver.Unreachable(err))
	}
	if c.Context().Err() != nil {
		return errors.New("the client was closed while redis had the request")
	}
	_, unsent := errors.AsType[*unsent](err)
	if until, ok := ctx.Deadline(); ok && !time.Now().Before(until) {
		<-ctx.Done() // the connection has the same deadline, and can notice it before the context does
	}
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

// foreign hides that an error is a context's error, since it belongs to the context of another call.
func foreign(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}
