package ai_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/value"
)

const oneTool = "tools: [{name: find, input: {properties: {id: {type: integer}}, required: [id]}, timeout: 500ms}]\n  ports: {'tool[0]': [{name: find}]}"

// TestToolMistakes has calls that cannot be made: the model gets the reason, and goes on.
func TestToolMistakes(t *testing.T) {
	f := func(name string, calls []modeltest.Call, answer node.ReceiverFunc, wantTold, wantFound string) {
		t.Helper()
		m := modeltest.New(t, modeltest.Script(modeltest.Turn{Calls: calls}, modeltest.Text("well")))
		flow := load(t, m.URL, oneTool)
		flow.Probe("find").Do(answer)
		expect(t, name, outcome(flow.Send("n", value.String("x"))), "well")
		var told []string
		for _, msg := range m.Requests()[1].Messages[2:] {
			told = append(told, msg.Content)
		}
		expect(t, name+", told", strings.Join(told, "; "), wantTold)
		expect(t, name+", found", flow.Probe("find").String(), wantFound)
	}
	call := func(name, arguments string) []modeltest.Call {
		return []modeltest.Call{{Name: name, Arguments: arguments}}
	}
	f("unknown", call("delete_all", "{}"), flowtest.Echo, "error: there is no tool of this name; there is find", "[]")
	f("half a JSON", call("find", `{"id": `), flowtest.Echo, "error: the arguments are not JSON: JSON, line 1, column 8: unexpected end, want a value", "[]")
	f("wrong type", call("find", `{"id": "seven"}`), flowtest.Echo, "error: the arguments do not fit the schema:\n/id: want an integer, got a string", "[]")
	f("missing", call("find", ""), flowtest.Echo, "error: the arguments do not fit the schema:\n/id: is missing", "[]")
	f("not an object", call("find", `[7]`), flowtest.Echo, "error: the arguments do not fit the schema:\nwant an object, got a list", "[]")
	f("good", call("find", `{"id": 7}`), flowtest.Echo, `{"id":7}`, `[{"id":7}]`)
	f("fails", call("find", `{"id": 7}`), flowtest.Fail(fmt.Errorf("the database is down")), "error: the database is down", `[{"id":7}]`)
	f("says nothing", call("find", `{"id": 7}`), flowtest.None, "done", `[{"id":7}]`)
	f("says much", call("find", `{"id": 7}`), flowtest.Answer(value.String(strings.Repeat("é", 40_000))), strings.Repeat("é", 32<<10)+"\n(cut off: 80000 bytes in all)", `[{"id":7}]`)
	f("never answers", call("find", `{"id": 7}`), func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			<-ctx.Done()
			return node.Fail(context.Cause(ctx))
		})
	}, "error: the tool has not answered in time", `[{"id":7}]`)
	f("says what is not text", call("find", `{"id": 7}`), flowtest.Answer(value.String("a\xffb")), "a\ufffdb", `[{"id":7}]`)
	f("one of two", append(call("find", `{"id": 7}`), call("other", "")...), flowtest.Echo, `{"id":7}; error: there is no tool of this name; there is find`, `[{"id":7}]`)
	many := make([]modeltest.Call, 0, 200)
	for range 200 {
		many = append(many, call("find", `{"id": 7}`)...)
	}
	m := modeltest.New(t, modeltest.Script(modeltest.Turn{Calls: many}, modeltest.Text("well")))
	flow := load(t, m.URL, oneTool)
	expect(t, "many", outcome(flow.Send("n", value.String("x"))), "well")
	if n := flow.Probe("find").Len(); n != 64 {
		t.Errorf("%d calls were made, want 64", n)
	}
}

// TestEndlessTurns checks that a model which calls tools for ever comes to an end.
func TestEndlessTurns(t *testing.T) {
	m := modeltest.New(t, func(modeltest.Request) modeltest.Turn { return modeltest.CallTool("find", `{"id": 1}`) })
	f := load(t, m.URL, oneTool, "max_turns: 3")
	f.Load(document(m.URL, "max_turns: 3", oneTool))
	if got := outcome(f.Send("n", value.String("x"))); !strings.HasPrefix(got, "turns 502: ") || !strings.HasSuffix(got, "the model has not come to an end in 3 turns") {
		t.Errorf("got %s", got)
	}
	if n := len(m.Requests()); n != 3 {
		t.Errorf("got %d requests, want 3", n)
	}
}

// TestToolsSideBySide checks that the calls of a turn do not wait for each other.
func TestToolsSideBySide(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(
		modeltest.Turn{Calls: []modeltest.Call{{Name: "find", Arguments: `{"id": 1}`}, {Name: "find", Arguments: `{"id": 2}`}}},
		modeltest.Text("well"),
	))
	f := load(t, m.URL, oneTool)
	both := make(chan struct{})
	met := 0
	met2 := make(chan int, 2)
	f.Probe("find").Do(func(node.Process, node.Packet) node.Result {
		met2 <- 1
		return node.Block(func(ctx context.Context) node.Result {
			select {
			case <-both:
				return node.None()
			case <-ctx.Done():
				return node.Fail(context.Cause(ctx))
			}
		})
	})
	call := f.Start("n", value.String("x"))
	for met < 2 {
		met += <-met2
	}
	close(both)
	expect(t, "answer", outcome(call.Response()), "well")
}

func TestSchema(t *testing.T) {
	const fields = "schema: {type: object, properties: {total: {type: number}}, required: [total]}"
	f := func(name, want string, wantRequests int, turns ...modeltest.Turn) {
		t.Helper()
		m := modeltest.New(t, modeltest.Script(turns...))
		flow := load(t, m.URL, fields)
		r := flow.Send("n", value.String("x"))
		got := strings.ReplaceAll(outcome(r), strings.TrimSuffix(m.URL, "/v1"), "HOST")
		if !r.IsError() {
			data, _ := r.Payload.Get("data")
			text, _ := data.AppendJSON(nil)
			got = string(text)
		}
		expect(t, name, got, want)
		if n := len(m.Requests()); n != wantRequests {
			t.Errorf("%s: got %d requests, want %d", name, n, wantRequests)
		}
	}
	good := modeltest.Text(`{"total": 7}`)
	f("fits", `{"total":7}`, 1, good)
	f("a block of code", `{"total":7}`, 1, modeltest.Text("```json\n{\"total\": 7}\n```"))
	f("half a JSON, repaired", `{"total":7}`, 2, modeltest.Text(`{"total": `), good)
	f("wrong type, repaired", `{"total":7}`, 2, modeltest.Text(`{"total": "seven"}`), good)
	f("twice", "schema 502: HOST: the answer does not fit the schema, also after it was sent back: /total: is missing", 2, modeltest.Text("{}"), modeltest.Text("{}"), good)
	f("text twice", "schema 502: HOST: the answer does not fit the schema, also after it was sent back: it is not JSON", 2, modeltest.Text("secret words"), modeltest.Text("secret words"), good)
	f("cut off", "schema 502: HOST: the answer is cut off at max_tokens, so that it does not fit the schema", 1, modeltest.Turn{Text: `{"total": `, Finish: "length"}, good)

	m := modeltest.New(t, modeltest.Script(modeltest.Text("{}"), good))
	load(t, m.URL, fields).Send("n", value.String("x"))
	format, _ := m.Requests()[0].Format.MarshalJSON()
	expect(t, "format", string(format), `{"type":"json_schema","json_schema":{"name":"answer","strict":false,"schema":{"type":"object","properties":{"total":{"type":"number"}},"required":["total"]}}}`)
	expect(t, "repair", m.Requests()[1].Last(), "This answer does not fit:\n/total: is missing\nAnswer again, with JSON and nothing else, that fits this JSON Schema:\n"+`{"type":"object","properties":{"total":{"type":"number"}},"required":["total"]}`)
}

// TestBudget checks both budgets. A token is four bytes of what is sent, and a piece of what
// comes; the prompt has 4, the answer 3.
func TestBudget(t *testing.T) {
	answers := func(modeltest.Request) modeltest.Turn { return modeltest.Turn{Tokens: []string{"a", "b", "c"}} }
	prompt := value.Map(value.Field{Name: "user", Value: value.String("ann")}, value.Field{Name: "text", Value: value.String("0123456789abcdef")})
	m := modeltest.New(t, answers)
	f := flowtest.New(t, kinds()...)
	doc := document(m.URL, "prompt: self.text", "budget: {key: 200, by: self.user, window: 1h}")
	f.Load(doc)
	allowed := 0
	for range 100 {
		if got := outcome(f.Send("n", prompt)); got != "abc" {
			expect(t, "refusal", got, "budget 429 (after 1h0m0s): the budget of tokens is used up: 200 in 1h0m0s")
			break
		}
		allowed++
		f.Load(doc) // a reload keeps what was used
	}
	if allowed < 15 || allowed > 200/7+1 {
		t.Errorf("%d were allowed", allowed)
	}
	expect(t, "another key", outcome(f.Send("n", prompt.With("user", value.String("bob")))), "abc")
	f.Sleep(time.Hour)
	expect(t, "the next window", outcome(f.Send("n", prompt)), "abc")
	last := m.Requests()[allowed-1]
	if last.MaxTokens == 0 || last.MaxTokens > 200 {
		t.Errorf("the last request asks for at most %d tokens", last.MaxTokens)
	}

	f.Load(document(m.URL, "prompt: self.text", "max_tokens: 50", "budget: {run: 30}"))
	expect(t, "one run", outcome(f.Send("n", prompt)), "abc")
	if got := m.Requests()[len(m.Requests())-1].MaxTokens; got >= 30 || got == 0 {
		t.Errorf("a run of 30 tokens asks for at most %d", got)
	}
	m = modeltest.New(t, func(modeltest.Request) modeltest.Turn { return modeltest.CallTool("find", `{"id": 1}`) })
	f.Load(document(m.URL, "prompt: self.text", "budget: {run: 60}", oneTool))
	expect(t, "turns of one run", outcome(f.Send("n", prompt)), "budget 429: the budget of one run is used up: 60 tokens")
}

// TestBudgetOfLeaver checks that a client that leaves gives back what was reserved for it.
func TestBudgetOfLeaver(t *testing.T) {
	came := make(chan struct{})
	m := modeltest.New(t, func(r modeltest.Request) modeltest.Turn {
		if r.Number > 0 {
			return modeltest.Text("well")
		}
		close(came)
		return modeltest.Turn{Silent: true}
	})
	f := load(t, m.URL, "max_tokens: 90", "budget: {key: 100}")
	call := f.Start("n", value.String("x"))
	<-came
	call.Cancel()
	call.Response()
	expect(t, "the next", outcome(f.Send("n", value.String("x"))), "well")
}

func TestHistory(t *testing.T) {
	m := modeltest.New(t, func(r modeltest.Request) modeltest.Turn { return modeltest.Text(fmt.Sprintf("answer %d", r.Number)) })
	s := session.New(value.Null())
	begin := &node.Def{
		Kind: "begin", Summary: "Begins a session.", Traits: node.Fixed(node.Traits{Gives: []string{session.Given}}), In: []node.Port{{Name: "in", Doc: "Anything."}}, Out: []node.Port{{Name: "out", Doc: "The same."}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				s.Begin(p)
				return node.Send(0, pkt.Payload)
			}), nil
		},
	}
	f := flowtest.New(t, append(kinds(), begin)...)
	f.Load("- {kind: begin, name: b, ports: {out: [{name: n, port: in}]}}\n" + document(m.URL, "history: 4", "system: Be kind.", "prompt: self.text"))
	for i := range 4 {
		expect(t, "answer", outcome(f.Send("b", value.Map(value.Field{Name: "text", Value: value.String(fmt.Sprintf("question %d", i))}))), fmt.Sprintf("answer %d", i))
	}
	var told []string
	for _, msg := range m.Requests()[3].Messages {
		told = append(told, msg.Role+" "+msg.Content)
	}
	expect(t, "last request", strings.Join(told, "; "), "system Be kind.; user question 1; assistant answer 1; user question 2; assistant answer 2; user question 3")
	kept, _ := s.Get("messages").AppendJSON(nil)
	expect(t, "session", string(kept), `[{"role":"user","content":"question 2"},{"role":"assistant","content":"answer 2"},{"role":"user","content":"question 3"},{"role":"assistant","content":"answer 3"}]`)
}

// TestSession checks that each conversation has a history of its own, with the kind session.
func TestSession(t *testing.T) {
	m := modeltest.New(t, func(r modeltest.Request) modeltest.Turn {
		if r.Last() == "fail" {
			return modeltest.Turn{Status: 401}
		}
		return modeltest.Text(fmt.Sprintf("%d messages", len(r.Messages)))
	})
	f := flowtest.New(t, kinds()...)
	f.Load("- {kind: session, name: s, key: self.who, ports: {out: [{name: n, port: in}]}}\n" + document(m.URL, "history: 10", "prompt: self.text"))
	say := func(who, what string) string {
		return outcome(f.Send("s", value.Map(value.Field{Name: "who", Value: value.String(who)}, value.Field{Name: "text", Value: value.String(what)})))
	}
	for i, want := range []string{"1 messages", "3 messages", "5 messages"} {
		expect(t, "ann", say("ann", "hello"), want)
		if i == 0 {
			expect(t, "bob", say("bob", "hello"), "1 messages")
		}
	}
	if got := say("bob", "fail"); !strings.HasPrefix(got, "auth 502") {
		t.Errorf("got %s", got)
	}
	expect(t, "bob, after a failure", say("bob", "hello"), "3 messages")
}

// TestLongHistory checks that a conversation that has grown too long for the budget of a
// run, or for the model, goes on without its oldest messages.
func TestLongHistory(t *testing.T) {
	long := strings.Repeat("word", 100) // 100 tokens
	m := modeltest.New(t, func(r modeltest.Request) modeltest.Turn { return modeltest.Text(long) })
	f := flowtest.New(t, kinds()...)
	talk := func(name string, fields ...string) (most int) {
		t.Helper()
		m.Reset()
		fields = append(fields, "history: 1000", "prompt: self.text", "system: Be kind.")
		f.Load("- {kind: session, name: s, key: self.who, ports: {out: [{name: n, port: in}]}}\n" + document(m.URL, fields...))
		for i := range 30 {
			if got := outcome(f.Send("s", value.Map(value.Field{Name: "who", Value: value.String(name)}, value.Field{Name: "text", Value: value.String(long)}))); got != long {
				t.Fatalf("%s, message %d: %s", name, i, got)
			}
		}
		last := m.Requests()[29].Messages
		for i, msg := range last {
			if want := []string{"assistant", "user"}[i%2]; i > 0 && msg.Role != want || i == 0 && msg.Role != "system" {
				t.Errorf("%s: message %d is of %s", name, i, msg.Role)
			}
		}
		return len(last)
	}
	if got := talk("ann", "budget: {run: 4000}"); got != 1+10+1 {
		t.Errorf("with a budget of 4,000 tokens, %d messages were sent", got)
	}
	m.Context(1100)
	if got := talk("bob"); got < 4 || got > 12 {
		t.Errorf("a model with 1,100 tokens was sent %d messages", got)
	}
	expect(t, "too long by itself", outcome(f.Send("s", value.Map(value.Field{Name: "who", Value: value.String("bob")}, value.Field{Name: "text", Value: value.String(strings.Repeat(long, 20))})))[:11], "context 500")
}
