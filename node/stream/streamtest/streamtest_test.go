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
	s.Without = make(map[streamtest.Row]string)
	for _, row := range []streamtest.Row{streamtest.Backlog, streamtest.Slow, streamtest.BlackHole, streamtest.Poison, streamtest.Bodies, streamtest.Password} {
		s.Without[row] = "TestQueue has it: dedupe makes no difference."
	}
	s.Without[streamtest.OrderOfBatches] = "It takes messages, not lists."
	s.Without[streamtest.Kill] = "The marks are in memory."
	s.Without[streamtest.Durable] = "The marks are in memory: the node is not possible in a durable run."
	streamtest.Run(t, s)
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
