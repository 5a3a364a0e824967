package streamtest_test

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest/reference"
	"github.com/uniflow-labs/uniflow/nodes/streams"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func options() stream.Options {
	return stream.Options{Languages: builtin.Languages(), Language: "cel"}
}

// source returns the subject of a source of the reference server.
func source(s stream.Source, unsettled func(*reference.Server) int) streamtest.Subject {
	return streamtest.Subject{
		Kinds:  []*node.Def{s.Def(options())},
		Source: true,
		System: func(t testing.TB) *streamtest.System {
			server := reference.NewServer(t)
			return &streamtest.System{
				Addr:    server.Addr,
				Restart: server.Restart,
				Source: func(addr string) map[string]any {
					return map[string]any{"kind": s.Kind, "address": addr}
				},
				Produce: func(_ testing.TB, messages []streamtest.Message) {
					for _, m := range messages {
						server.Put(m.Key, m.Body)
					}
				},
				Unsettled: func(testing.TB) int { return unsettled(server) },
				Ahead:     func(testing.TB) int { return server.Ahead() },
				Refuse:    refuse,
			}
		},
	}
}

func refuse(fields map[string]any) (field, secret string) {
	fields["password"] = "a wrong horse"
	return "password", "a wrong horse"
}

func queue() streamtest.Subject {
	return source(reference.Queue(), func(s *reference.Server) int {
		queue, _ := s.Unsettled()
		return queue
	})
}

func log() streamtest.Subject {
	return source(reference.Log(), func(s *reference.Server) int {
		_, log := s.Unsettled()
		return log
	})
}

func sink() streamtest.Subject { return sinkOf(reference.Sink()) }

func sinkOf(s stream.Sink) streamtest.Subject {
	return streamtest.Subject{
		Kinds: []*node.Def{s.Def(options())},
		Sink:  true,
		System: func(t testing.TB) *streamtest.System {
			server := reference.NewServer(t)
			return &streamtest.System{
				Addr:    server.Addr,
				Restart: server.Restart,
				Sink: func(addr string) map[string]any {
					return map[string]any{"kind": s.Kind, "address": addr}
				},
				Consume: func(testing.TB) (bodies [][]byte) {
					server.Messages(func(_ string, body []byte) { bodies = append(bodies, body) })
					return bodies
				},
				Reject: func() value.Value {
					return value.Map(
						value.Field{Name: "body", Value: value.String("")},
						value.Field{Name: "key", Value: value.String(reference.Forbidden)},
					)
				},
				Refuse: refuse,
			}
		},
	}
}

func TestQueue(t *testing.T) { streamtest.Run(t, queue()) }
func TestLog(t *testing.T)   { streamtest.Run(t, log()) }
func TestSink(t *testing.T)  { streamtest.Run(t, sink()) }

// TestDedupe shows that a node dedupe voids no guarantee: what fails after it comes again.
func TestDedupe(t *testing.T) {
	s := queue()
	s.Kinds = append(s.Kinds, streams.Defs(options())...)
	s.Via = map[string]any{"kind": "dedupe"}
	s.Without = without("dedupe")
	s.Without[streamtest.Kill] = "The marks are in memory."
	streamtest.Run(t, s)
}

// without are the rows to which a node between, of a kind that holds messages in memory, makes no difference, and
// those that it cannot have.
func without(kind string) map[streamtest.Row]string {
	rows := make(map[streamtest.Row]string)
	for _, row := range []streamtest.Row{streamtest.Backlog, streamtest.Slow, streamtest.BlackHole, streamtest.Bodies, streamtest.Password} {
		rows[row] = "The source by itself has it: " + kind + " makes no difference."
	}
	for _, row := range []streamtest.Row{streamtest.OrderOfBatches, streamtest.Poison} {
		rows[row] = "It takes messages, not lists."
	}
	rows[streamtest.Durable] = "What it knows is in memory: the node is not possible in a durable run."
	return rows
}

// TestWindow shows that windows lose nothing, of 100 messages or of one: each message is in one that was done, or late.
func TestWindow(t *testing.T) {
	f := func(name string, s streamtest.Subject, key string) {
		t.Run(name, func(t *testing.T) {
			s.Kinds = append(s.Kinds, streams.Defs(options())...)
			work := []map[string]any{{"name": "work", "port": "in"}}
			s.Via = map[string]any{
				"kind": "window", "size": "100ms", "idle": "20ms", "key": key,
				"time":  `timestamp("2020-01-01T00:00:00Z") + duration(string(self.body.id) + "ms")`,
				"ports": map[string]any{"out": work, "late": work},
			}
			s.Without = without("window")
			if key == "null" {
				s.Without[streamtest.Acknowledgement] = "The messages of a window are answered together."
				s.Without[streamtest.Errors] = "The messages of a window fail together."
			}
			streamtest.Run(t, s)
		})
	}
	f("queue", queue(), "null")
	f("queue, one", queue(), "self.body.id")
	f("log", log(), "null")
	f("log, one", log(), "self.body.id")
}

func TestTable(t *testing.T) {
	lossy := streamtest.Subject{Source: true, Without: map[streamtest.Row]string{
		streamtest.Kill: "The system forgets what it has sent.", streamtest.Resets: "The system forgets what it has sent.",
	}}
	got := streamtest.Table([]string{"queue", "lossy", "sink"}, map[string]streamtest.Subject{"queue": queue(), "lossy": lossy, "sink": sink()})
	for _, want := range []string{"| 8 kill | yes | 1 | yes |\n", "| 2 errors | yes | yes |  |\n", "| 11 parts |  |  | yes |\n", "\n1. The system forgets what it has sent.\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}
