package websocket_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
)

// TestWebsocketClientKit has a server that sends each message once.
func TestWebsocketClientKit(t *testing.T) {
	const lost = "A WebSocket has no way to ask for a message again: what was read and not settled is lost when the connection or the program ends."
	apart := make(map[streamtest.Row]string)
	for _, row := range []streamtest.Row{
		streamtest.Acknowledgement, streamtest.Backlog, streamtest.Resets, streamtest.Restarts, streamtest.Changes, streamtest.Drain, streamtest.Grace, streamtest.Kill,
	} {
		apart[row] = lost
	}
	streamtest.Run(t, streamtest.Subject{
		Kinds: kinds(), Source: true, Without: apart,
		System: func(t testing.TB) *streamtest.System {
			queue := make(chan []byte, 1<<17) // each message is sent once
			url := webSockets(t, func(ctx context.Context, c *websocket.Conn) {
				ctx = c.CloseRead(ctx)
				for {
					select {
					case body := <-queue:
						kind := websocket.MessageText
						if !utf8.Valid(body) {
							kind = websocket.MessageBinary
						}
						if c.Write(ctx, kind, body) != nil {
							return
						}
					case <-ctx.Done():
						return
					}
				}
			})
			return &streamtest.System{
				Addr: strings.TrimPrefix(url, "ws://"),
				Source: func(addr string) map[string]any {
					// Without pings: a black hole lasts as long as the answer to one may take, and
					// what is lost with the connection does not come again.
					return map[string]any{"kind": "websocket_client", "url": "ws://" + addr + "/", "max_message": "16MiB", "ping": "0s"}
				},
				Produce: func(_ testing.TB, messages []streamtest.Message) {
					for _, m := range messages {
						queue <- m.Body
					}
				},
				Refuse: func(fields map[string]any) (field, secret string) {
					fields["auth"] = map[string]any{"token": wrongToken}
					return "auth", wrongToken
				},
			}
		},
	})
}
