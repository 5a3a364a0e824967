package client

import (
	"context"

	"github.com/redis/rueidis"
)

// Subscribe subscribes to channels and patterns, over a connection of its own. It returns when
// the server has confirmed it. got is called for each message, one after the other, and must not
// block. ended has an error, or is closed, when the connection has ended. Call end once.
func (c *Conn) Subscribe(ctx context.Context, channels, patterns []string, got func(rueidis.PubSubMessage)) (ended <-chan error, end func(), err error) {
	client, err := c.now()
	if err != nil {
		return nil, nil, lost(err)
	}
	d, release := client.Dedicate()
	end = func() {
		d.Close()
		release()
	}
	ended = d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: got})
	var commands []rueidis.Completed
	if len(channels) > 0 {
		commands = append(commands, d.B().Subscribe().Channel(channels...).Build())
	}
	if len(patterns) > 0 {
		commands = append(commands, d.B().Psubscribe().Pattern(patterns...).Build())
	}
	for _, command := range commands {
		if a := c.answer(ctx, d.Do(ctx, command)); a.Err != nil {
			end()
			return nil, nil, a.Err
		}
	}
	return ended, end, nil
}
