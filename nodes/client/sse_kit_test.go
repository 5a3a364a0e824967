package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
)

// A messageList is what a service sends, all of it to who asks for it.
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

const wrongToken = "a wrong horse"

// TestSSESourceKit has a service that knows all its events, by Last-Event-ID.
func TestSSESourceKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: kinds(), Source: true,
		System: func(t testing.TB) *streamtest.System {
			events, positions := newMessageList(), filepath.Join(t.TempDir(), "positions")
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.Header.Get("Authorization"), wrongToken) {
					http.Error(w, "who are you?", http.StatusUnauthorized)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				flush := http.NewResponseController(w)
				if flush.Flush() != nil {
					return
				}
				last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // 0 without one
				for {
					more := events.from(r.Context(), last)
					if len(more) == 0 {
						return
					}
					for _, body := range more {
						if len(body) == 0 {
							body = []byte(`""`) // an event has data
						}
						last++
						if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", last, body); err != nil {
							return
						}
					}
					if flush.Flush() != nil {
						return
					}
				}
			}))
			t.Cleanup(func() {
				s.CloseClientConnections()
				s.Close()
			})
			return &streamtest.System{
				Addr:    s.Listener.Addr().String(),
				Restart: func(testing.TB) { s.CloseClientConnections() },
				Source: func(addr string) map[string]any {
					return map[string]any{
						"kind": "sse_source", "url": "http://" + addr + "/", "max_event": "64MiB",
						"checkpoint": map[string]any{"file": positions, "interval": "50ms"},
					}
				},
				Produce: func(_ testing.TB, messages []streamtest.Message) { events.add(messages) },
				Refuse: func(fields map[string]any) (field, secret string) {
					fields["auth"] = map[string]any{"token": wrongToken}
					return "auth", wrongToken
				},
			}
		},
	})
}
