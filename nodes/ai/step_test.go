package ai_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/value"
)

// A crashing store of a journal keeps so many records, and then commits nothing.
type crashing struct {
	*memory.Store
	left    atomic.Int64
	records atomic.Int64
}

func (s *crashing) Commit(ctx context.Context, b *journal.Batch) error {
	n := int64(len(b.Records) + len(b.Ends))
	if s.left.Add(-n) < 0 {
		s.left.Store(-1 << 40)
		return errors.New("the program has crashed")
	}
	s.records.Add(n)
	return s.Store.Commit(ctx, b)
}

// Close leaves the journal to the next program.
func (s *crashing) Close() error { return nil }

// TestRuns crashes a durable process after each of its records. The model is asked each question once, or
// twice if the crash came before the record of its answer, and hears the same; so are its tools.
func TestRuns(t *testing.T) {
	const fields = `
  tools: [{name: find, input: {properties: {id: {type: integer}}, required: [id]}}, {name: buy}]
`
	t.Run("repair", func(t *testing.T) {
		crashes(t, fields+"  schema: {type: object, required: [total]}\n  ports: {out: [{name: answer}], 'tool[0]': [{name: find}], 'tool[1]': [{name: buy}]}\n",
			`200 {"text":"{\"total\": 7}","turns":3`, 3, `[{"id":7}][{}][]`)
	})
	t.Run("parts", func(t *testing.T) {
		crashes(t, fields+"  stream: true\n  ports: {out: [{name: answer}], part: [{name: said}], 'tool[0]': [{name: find}], 'tool[1]': [{name: buy}]}\n",
			`200 {"text":"no JSON","turns":2`, 2, `[{"id":7}][{}]["let me see","no JSON"]`)
	})
}

func crashes(t *testing.T, fields, wantAnswer string, wantAsked int, wantTools string) {
	t.Helper()
	run := func(t *testing.T, crashAt int64) (answer string, asked []string, tools string, records int64) {
		m := modeltest.New(t, func(r modeltest.Request) modeltest.Turn {
			switch n := len(r.Messages); {
			case n == 1:
				return modeltest.Turn{Text: "let me see", Calls: []modeltest.Call{{Name: "find", Arguments: `{"id": 7}`}, {Name: "buy"}, {Name: "unknown"}}}
			case n == 5:
				return modeltest.Text("no JSON")
			default:
				return modeltest.Text(fmt.Sprintf(`{"total": %d}`, n))
			}
		})
		s := &crashing{Store: memory.New()}
		s.left.Store(crashAt)
		begin := func() *flowtest.Flow {
			f := flowtest.New(t, kinds()...)
			f.Options.Clock, f.Options.Journal = node.SystemClock{}, s
			f.Probe("find").Do(flowtest.Answer(value.String("seven")))
			f.Probe("buy").Do(flowtest.Answer(value.String("bought")))
			f.Probe("said").Do(flowtest.None)
			f.Serve(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, durability: {level: checkpoint, key: '"k"'}, ports: {out: [{name: ask}]}}
- {kind: snippet, name: ask, language: cel, code: body, ports: {out: [{name: n}]}}
- {kind: snippet, name: answer, language: cel, code: '{"body": {"text": self.text, "turns": self.turns, "usage": self.usage}}'}
` + document(m.URL, fields))
			return f
		}
		send := func(f *flowtest.Flow) string {
			r := f.Request("POST", "/", "how much?", "Content-Type", "text/plain")
			return fmt.Sprint(r.Status, " ", r.Body)
		}
		f := begin()
		answer = send(f)
		for _, name := range []string{"find", "buy", "said"} {
			tools += f.Probe(name).String()
		}
		if s.left.Load() < 0 {
			f.Close()
			s.left.Store(1 << 40)
			f = begin()
			answer = send(f)
			for _, name := range []string{"find", "buy", "said"} {
				tools += f.Probe(name).String()
			}
		}
		for _, r := range m.Requests() {
			var all []string
			for _, msg := range r.Messages {
				all = append(all, msg.Role+": "+msg.Content)
			}
			asked = append(asked, strings.Join(all, "; "))
		}
		return answer, asked, tools, s.records.Load()
	}
	want, asked, tools, records := run(t, 1<<40)
	if !strings.HasPrefix(want, wantAnswer) || len(asked) != wantAsked || tools != wantTools {
		t.Fatalf("got %s; asked %q; tools %s", want, asked, tools)
	}
	if records < 6 {
		t.Fatalf("there are %d records", records)
	}
	for at := range records {
		got, again, _, _ := run(t, at)
		if got != want {
			t.Errorf("a crash at %d: got %s, want %s", at, got, want)
		}
		if len(again) > len(asked)+1 {
			t.Errorf("a crash at %d: the model was asked %d times", at, len(again))
		}
		for i, words := range asked {
			if n := count(again, words); n < 1 || n > 2 {
				t.Errorf("a crash at %d: question %d was asked %d times", at, i, n)
			}
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
