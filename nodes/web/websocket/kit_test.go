package websocket_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
)

// A messageList is what a service sends: all of it to who asks for it, or each message once.
type messageList struct {
	mu      sync.Mutex
	all     [][]byte
	changed chan struct{} // closed when there are more
}

func newMessageList() *messageList { return &messageList{changed: make(chan struct{})} }

func (l *messageList) add(messages []streamtest.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		l.all = append(l.all, m.Body)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// from returns the messages behind the first n, when there are some.
func (l *messageList) from(ctx context.Context, n int) [][]byte {
	for {
		l.mu.Lock()
		more, changed := l.all[min(n, len(l.all)):], l.changed
		l.mu.Unlock()
		if len(more) > 0 {
			return more
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// take returns all messages, which are not there any more then.
func (l *messageList) take(ctx context.Context) [][]byte {
	taken := l.from(ctx, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = l.all[len(taken):]
	return taken
}

const wrongToken = "a wrong horse"

func refuseToken(fields map[string]any) (field, secret string) {
	fields["auth"] = map[string]any{"token": wrongToken}
	return "auth", wrongToken
}

// kitService is a service that does not take the wrong token.
func kitService(t testing.TB, serve http.HandlerFunc) *httptest.Server {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		defer all.Done()
		if strings.Contains(r.Header.Get("Authorization"), wrongToken) {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		both, end := context.WithCancel(r.Context())
		defer end()
		defer context.AfterFunc(ctx, end)()
		serve(w, r.WithContext(both))
	}))
	t.Cleanup(func() {
		cancel()
		s.CloseClientConnections()
		s.Close()
		all.Wait()
	})
	return s
}

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
			queue := newMessageList()
			s := kitService(t, func(w http.ResponseWriter, r *http.Request) {
				c, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				defer c.CloseNow()
				ctx := c.CloseRead(r.Context())
				for {
					more := queue.take(ctx)
					if len(more) == 0 {
						return
					}
					for _, body := range more {
						kind := websocket.MessageText
						if !utf8.Valid(body) {
							kind = websocket.MessageBinary
						}
						if c.Write(ctx, kind, body) != nil {
							return
						}
					}
				}
			})
			return &streamtest.System{
				Addr: s.Listener.Addr().String(),
				Source: func(addr string) map[string]any {
					// Without pings: a black hole lasts as long as the answer to one may take, and
					// what is lost with the connection does not come again.
					return map[string]any{"kind": "websocket_client", "url": "ws://" + addr + "/", "max_message": "16MiB", "ping": "0s"}
				},
				Produce: func(_ testing.TB, messages []streamtest.Message) { queue.add(messages) },
				Refuse:  refuseToken,
			}
		},
	})
}
