package conn

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// Subscribe listens to a channel until the subscription is lost or ctx ends. It calls stands when the servers confirm or end
// the subscription, and told with each message.
func (c *Conn) Subscribe(ctx context.Context, channel string, stands func(bool), told func(string)) error {
	if c.sharded {
		return c.subscribeSharded(ctx, channel, stands, told)
	}
	return c.SubscribeBroad(ctx, channel, stands, told)
}

// SubscribeBroad is Subscribe for a channel that is on all servers, on a connection of its own.
func (c *Conn) SubscribeBroad(ctx context.Context, channel string, stands func(bool), told func(string)) error {
	// A connection of its own keeps calls on the other one fast. It leads to the present primary, and is useless after a
	// failover: the old primary may be stopped, or report a turn that only it knows.
	at := c.primary()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	counts := func() bool { return ctx.Err() == nil && c.primary() == at }
	if at != "" && !c.Go(func() { defer leave(); whileTrue(ctx, counts) }) {
		return driver.ErrClosed
	}
	own, release := c.client.Dedicate()
	defer release()
	defer own.Close()
	lost := own.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if counts() {
				told(m.Message)
			}
		},
		OnSubscription: func(s rueidis.PubSubSubscription) { stands(s.Kind == "subscribe" && counts()) },
	})
	if err := own.Do(ctx, own.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		return err
	}
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
		stands(false) // at once: the library takes up to a second to close a connection to a stopped server
		return ctx.Err()
	}
}

// whileTrue checks a condition from time to time, and returns when it is false or ctx ends.
func whileTrue(ctx context.Context, is func() bool) {
	look := time.NewTicker(lookAround)
	defer look.Stop()
	for is() {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
}

// subscribeSharded listens on the connection to the channel's server. It also ends when the channel moves to another server.
func (c *Conn) subscribeSharded(ctx context.Context, channel string, stands func(bool), told func(string)) error {
	b := c.client.B()
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) { stands(s.Kind == "ssubscribe") })
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, node rueidis.CommandClient) error {
		if ctx.Err() != nil && c.Context().Err() == nil { // the client would leave the connection subscribed
			leave, cancel := context.WithTimeout(c.Context(), probeWithin)
			defer cancel()
			node.Do(leave, b.Sunsubscribe().Channel(channel).Build())
		}
		return err
	})
	return c.client.Receive(hooked, b.Ssubscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
		told(m.Message)
	})
}
