package dialogue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A talk is a conversation of a test: it takes the parts of a process, and may answer each.
type talk struct {
	mu     sync.Mutex
	said   []string
	answer func(said string) // called after each part, before the process goes on; may be nil
	err    error             // of each part
}

func (k *talk) Part(_ context.Context, v value.Value) error {
	k.mu.Lock()
	text, _ := v.Get("text")
	s, _ := text.AsString()
	k.said = append(k.said, s)
	answer, err := k.answer, k.err
	k.mu.Unlock()
	if answer != nil {
		answer(s)
	}
	return err
}

func (k *talk) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.said)
}

// asks sends a payload to the node n as a message of the conversation "c", and a reply to each
// question. It returns the answer of the process and what was said.
func asks(t *testing.T, document, payload string, replies ...string) (string, []string) {
	t.Helper()
	f := newFlow(t)
	f.Load(document)
	return talks(t, f, payload, replies...)
}

func talks(t *testing.T, f *flowtest.Flow, payload string, replies ...string) (string, []string) {
	t.Helper()
	k := new(talk)
	k.answer = func(string) {
		if len(replies) == 0 {
			return
		}
		message := value.String(replies[0])
		if v, err := value.ParseJSON([]byte(replies[0])); err == nil && v.Kind() == value.KindMap {
			message = v
		}
		replies = replies[1:]
		if resp := f.Source("replies").Run(node.WithConversation(t.Context(), "c"), node.Send(0, message)); resp.IsError() {
			t.Errorf("a reply was not taken: %s", flowtest.Show(resp))
		}
	}
	v, err := value.ParseJSON([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	ctx := node.WithParts(node.WithConversation(t.Context(), "c"), k)
	return flowtest.Show(f.Source("messages").Run(ctx, node.Send(0, v))), k.all()
}

// around is what asks needs around the node n.
const around = "\n- {kind: source, name: messages, ports: {'out[0]': [{name: n}]}}\n- {kind: source, name: replies, ports: {'out[0]': [{name: n, port: reply}]}}\n"

func TestAsk(t *testing.T) {
	f := func(name, fields, payload string, replies []string, want string, wantSaid ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			got, said := asks(t, "- {kind: ask, name: n, "+fields+"}"+around, payload, replies...)
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if !slices.Equal(said, wantSaid) {
				t.Errorf("said %q, want %q", said, wantSaid)
			}
		})
	}
	f("text", "text: 'Who, ${self.a}?'", `{"a":1}`, []string{"ann"}, `{"input":{"a":1},"answer":"ann","message":"ann"}`, "Who, 1?")
	f("message", "text: Who?", `1`, []string{`{"text":"ann","user":{"id":7}}`}, `"answer":"ann","message":{"text":"ann","user":{"id":7}}`, "Who?")
	f("websocket", "text: Who?", `1`, []string{`{"body":{"text":"ann"},"connection":"x"}`}, `"answer":"ann"`, "Who?")
	f("choice", "text: Size?, choices: [small, large]", `1`, []string{" LARGE "}, `"answer":"large"`, "Size?")
	f("number of a choice", "text: Size?, choices: [small, large]", `1`, []string{"1"}, `"answer":"small"`, "Size?")
	f("data of a choice", "text: Size?, choices: [{text: Small, data: 7}, {text: Large, data: {n: 8}}]", `1`, []string{"large"}, `"answer":{"n":8}`, "Size?")
	f("button", "text: Size?, choices: [{text: Small, data: 7}, large]", `1`, []string{`{"event":"action","data":"7","text":""}`}, `"answer":7`, "Size?")
	f("made choices", "text: Which?, choices: '${self.orders}'", `{"orders":[3,4]}`, []string{"4"}, `"answer":4`, "Which?")
	f("no choices", "text: Which?, choices: '${self.orders}'", `{"orders":[]}`, nil, `error: choices: want a list of 1 to 100 choices, got a list of 0`)
	f("not a choice", "text: Size?, choices: [small, large]", `1`, []string{"huge", "small"}, `"answer":"small"`, "Size?", "Please choose one of: small, large.\nSize?")
	f("schema", "text: Age?, schema: {type: integer, minimum: 18}", `1`, []string{"x", "17", "18"}, `"answer":18`,
		"Age?", "want an integer, got a string\nAge?", "want at least 18\nAge?")
	f("again", "text: Age?, schema: {type: integer}, again: 'Not ${answer}: ${error}'", `{}`, []string{"x", "18"}, `"answer":18`, "Age?", "Not x: want an integer, got a string")
	f("attempts", "text: Age?, schema: {type: integer}, attempts: 2", `1`, []string{"x", "y"}, `error: no answer of 2 fits: want an integer, got a string`, "Age?", "want an integer, got a string\nAge?")
	f("timeout", "text: Who?, timeout: 1m", `1`, nil, `error: no answer has come for 1m0s`, "Who?")
	f("port timeout", "text: Who?, timeout: 1m, ports: {timeout: [{name: late}]}", `1`, nil, `1`, "Who?")
	f("a bad text", "text: 'Who, ${self.a}?'", `{}`, nil, `error: text: `)
	f("boolean", "text: Sure?, schema: {type: boolean}", `1`, []string{"Yes"}, `"answer":true`, "Sure?")
	f("one of numbers", "text: Which?, schema: {enum: [3, 4]}", `1`, []string{"4"}, `"answer":4`, "Which?")
	f("text that reads like a number", "text: Which?, schema: {enum: [3, '4']}", `1`, []string{"4"}, `"answer":"4"`, "Which?")
	f("below", "text: Who?, schema: {properties: {a: {required: [b]}}, type: object}", `1`, []string{`{"a":{}}`, `{}`}, `"answer":{}`, "Who?", "a.b: is missing\nWho?")
	f("list", "text: Which?, schema: {type: array, items: {type: integer}}", `1`, []string{"[1, 2]"}, `"answer":[1,2]`, "Which?")
}

func TestForm(t *testing.T) {
	document := "- {kind: form, name: n, fields: [{name: name, text: Name?}, {name: age, text: 'Age, ${answers.name}?', schema: {type: integer}}], ports: {timeout: [{name: late}]}}" + around
	got, said := asks(t, document, `{"a":1}`, "ann", "x", "7")
	if want := `{"input":{"a":1},"answers":{"name":"ann","age":7}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := []string{"Name?", "Age, ann?", "want an integer, got a string\nAge, ann?"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	got, _ = asks(t, document, `1`, "ann")
	if want := `error: text: `; !strings.HasPrefix(got, want) {
		t.Errorf("a payload without fields: got %s, want %s", got, want)
	}
	got, _ = asks(t, document, `{}`, "ann")
	if want := `{"input":{},"answers":{"name":"ann"}}`; got != want {
		t.Errorf("late: got %s, want %s", got, want)
	}
}

// TestAskElsewhere asks without a conversation, and without parts.
func TestAskElsewhere(t *testing.T) {
	f := newFlow(t)
	f.Load("- {kind: ask, name: n, key: self.id}\n- {kind: ask, name: text, text: Who?, key: self.id}\n- {kind: ask, name: none}\n" + around)
	for send, want := range map[string]string{
		`text {"id":1}`: "error: the trigger of this process takes no parts",
		`none {"id":1}`: "error: the process belongs to no conversation",
		`n {"id":""}`:   "error: key: it is null or empty",
		`n {}`:          "error: key: ",
	} {
		name, payload, _ := strings.Cut(send, " ")
		if got := f.SendJSON(name, payload); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", send, got, want)
		}
	}
	reply := func(payload string) string {
		v, err := value.ParseJSON([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return flowtest.Show(f.Source("replies").Run(t.Context(), node.Send(0, v)))
	}
	if got := reply(`{"id":7,"text":"early"}`); got != "error: no question waits for this reply" {
		t.Errorf("got %s", got)
	}
	call := f.Start("n", value.Map(value.Field{Name: "id", Value: value.Int(7)}))
	f.Sleep(time.Minute)
	f.Load("- {kind: ask, name: n, key: self.id}\n- {kind: nop, name: more}\n" + around) // while it is parked
	if got := reply(`{"id":8,"text":"x"}`); got != "error: no question waits for this reply" {
		t.Errorf("got %s", got)
	}
	if got := reply(`{"id":7,"text":"yes"}`); got != "none" {
		t.Errorf("got %s", got)
	}
	if got, want := flowtest.Show(call.Response()), `{"input":{"id":7},"answer":"yes","message":{"id":7,"text":"yes"}}`; got != want {
		t.Errorf("after a reload: got %s, want %s", got, want)
	}
	call = f.Start("n", value.Map(value.Field{Name: "id", Value: value.Int(7)}))
	f.Sleep(time.Second)
	call.Cancel()
	if got := flowtest.Show(call.Response()); !strings.HasPrefix(got, "error: ") {
		t.Errorf("cancelled: got %s", got)
	}
	if got := reply(`{"id":7}`); got != "error: no question waits for this reply" {
		t.Errorf("a reply for a process that was cancelled: got %s", got)
	}
}

// TestAskLeft says nothing to one that has left, and its next message is not an answer.
func TestAskLeft(t *testing.T) {
	f := newFlow(t)
	f.Load("- {kind: ask, name: n, text: Who?}" + around)
	k := &talk{err: errors.New("it has left")}
	ctx := node.WithParts(node.WithConversation(t.Context(), "c"), k)
	if got := flowtest.Show(f.Source("messages").Run(ctx, node.Send(0, value.Int(1)))); got != "error: it has left" {
		t.Errorf("got %s", got)
	}
	if got := flowtest.Show(f.Source("replies").Run(ctx, node.Send(0, value.Int(1)))); got != "error: no question waits for this reply" {
		t.Errorf("got %s", got)
	}
}

// TestAskStranger sends a reply whose key is the conversation of another process: it is not
// the answer there. In the conversation itself a key may name it.
func TestAskStranger(t *testing.T) {
	f := newFlow(t)
	f.Load("- {kind: ask, name: n, text: Who?}\n- {kind: ask, name: named, key: self.id}\n" + around +
		"- {kind: source, name: named messages, ports: {'out[0]': [{name: named}]}}\n- {kind: source, name: strangers, ports: {'out[0]': [{name: named, port: reply}]}}\n")
	conversation := node.WithParts(node.WithConversation(t.Context(), "c"), new(tryTalk))
	payload := value.Map(value.Field{Name: "id", Value: value.String("c")}, value.Field{Name: "text", Value: value.String("mine")})
	for source, want := range map[string]string{
		"messages":       `{"input":{"id":"c","text":"mine"},"answer":"ann","message":"ann"}`,
		"named messages": `{"input":{"id":"c","text":"mine"},"answer":"ann","message":"ann"}`,
	} {
		got := make(chan node.Response, 1)
		f.Source(source).Start(conversation, nil, node.Send(0, payload), func(resp node.Response) { got <- resp })
		if got := flowtest.Show(f.Source("strangers").Run(t.Context(), node.Send(0, payload))); got != "error: no question waits for this reply" {
			t.Errorf("%s: a stranger's reply: got %s", source, got)
		}
		if got := flowtest.Show(f.Source("replies").Run(conversation, node.Send(0, value.String("ann")))); got != "none" {
			t.Errorf("%s: a reply: got %s", source, got)
		}
		if got := flowtest.Show(<-got); got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
}

// TestAskShutdown ends a program while a process waits: it takes no time.
func TestAskShutdown(t *testing.T) {
	f := newFlow(t)
	f.Options.Grace = time.Hour
	f.Load("- {kind: ask, name: n, key: '\"k\"', timeout: 24h}" + around)
	old := f.Start("n", value.Null())
	f.Sleep(time.Second)
	f.Load("- {kind: ask, name: n, key: '\"k\"', timeout: 25h}" + around)
	call := f.Start("n", value.Null())
	f.Sleep(time.Second)
	before := time.Now()
	f.Close()
	if d := time.Since(before); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
	for i, c := range []*flowtest.Call{old, call} {
		if got := flowtest.Show(c.Response()); !strings.Contains(got, "the program ends") {
			t.Errorf("process %d: got %s", i, got)
		}
	}
}
