package sockets_test

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/sockets"
)

// A lineServer sends lines to who connects, each once.
type lineServer struct {
	listen net.Listener
	work   sync.WaitGroup
	mu     struct {
		sync.Mutex
		lines  [][]byte
		conns  []net.Conn
		closed bool
		more   sync.Cond // lines, or the end
	}
}

func newLineServer(t testing.TB) *lineServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &lineServer{listen: l}
	s.mu.more.L = &s.mu
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.mu.Lock()
			s.mu.conns = append(s.mu.conns, c)
			s.mu.Unlock()
			s.work.Go(func() { s.send(c) })
			s.work.Go(func() { // until the other side has closed
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		s.mu.Lock()
		s.mu.closed = true
		s.mu.more.Broadcast()
		for _, c := range s.mu.conns {
			_ = c.Close() // nothing is expected from it
		}
		s.mu.Unlock()
		_ = l.Close() // likewise
		s.work.Wait()
	})
	return s
}

func (s *lineServer) send(c net.Conn) {
	for {
		s.mu.Lock()
		for len(s.mu.lines) == 0 && !s.mu.closed {
			s.mu.more.Wait()
		}
		lines := s.mu.lines
		s.mu.lines = nil
		closed := s.mu.closed
		s.mu.Unlock()
		if closed {
			return
		}
		if _, err := c.Write(append(bytes.Join(lines, []byte{'\n'}), '\n')); err != nil {
			return
		}
	}
}

func (s *lineServer) add(lines [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lines = append(s.mu.lines, lines...)
	s.mu.more.Broadcast()
}

func TestSourceKit(t *testing.T) {
	const lost = "A socket has no way to ask for a message again: what was read and not settled is lost when the connection or the program ends."
	apart := map[streamtest.Row]string{streamtest.Password: "A socket has no credentials."}
	for _, row := range []streamtest.Row{
		streamtest.Acknowledgement, streamtest.Backlog, streamtest.Resets, streamtest.Restarts,
		streamtest.Changes, streamtest.Drain, streamtest.Grace, streamtest.Kill,
	} {
		apart[row] = lost
	}
	streamtest.Run(t, streamtest.Subject{
		Kinds:   sockets.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"}),
		Source:  true,
		Without: apart,
		System: func(t testing.TB) *streamtest.System {
			s := newLineServer(t)
			return &streamtest.System{
				Addr: s.listen.Addr().String(),
				Source: func(addr string) map[string]any {
					return map[string]any{"kind": "socket_source", "mode": "connect", "address": addr, "limits": map[string]any{"max_message": "16MiB"}}
				},
				Produce: func(_ testing.TB, messages []streamtest.Message) {
					lines := make([][]byte, len(messages))
					for i, m := range messages {
						if lines[i] = m.Body; len(m.Body) == 0 {
							lines[i] = []byte(`""`)
						}
					}
					s.add(lines)
				},
			}
		},
	})
}
