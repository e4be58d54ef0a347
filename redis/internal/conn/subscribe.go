package conn

import (
	"context"

	"github.com/redis/rueidis"
)

// Subscribe listens to a channel until the subscription is lost or ctx ends. It calls stands whenever the servers confirm
// the subscription, or end it, and told with each message.
func (c *Conn) Subscribe(ctx context.Context, channel string, stands func(bool), told func(string)) error {
	if c.sharded {
		return c.subscribeSharded(ctx, channel, stands, told)
	}
	// A connection of its own leaves calls on the other quick.
	own, release := c.client.Dedicate()
	defer release()
	defer own.Close()
	lost := own.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { told(m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) { stands(s.Kind == "subscribe") },
	})
	if err := own.Do(ctx, own.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		return err
	}
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// subscribeSharded listens on the connection to the server that has the channel. It also ends when the channel moves to
// another server.
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
