package ai

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// TestReply has what servers send that differs from what others send.
func TestReply(t *testing.T) {
	f := func(name, want string, docs ...string) {
		t.Helper()
		var a reply
		for _, doc := range docs {
			v, err := value.ParseJSON([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.take(v); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		a.end(1, 40)
		var calls []string
		for _, c := range a.calls {
			calls = append(calls, fmt.Sprintf("%s %s(%s)", c.id, c.name, c.arguments))
		}
		got := fmt.Sprintf("%q %s %s %d", a.text.String(), strings.Join(calls, ", "), a.finish, a.usage.total)
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	delta := func(d string) string { return `{"choices": [{"delta": ` + d + `}]}` }
	f("pieces of one call", `"" a find({"id":7}) stop 13`,
		delta(`{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "find", "arguments": ""}}]}`),
		delta(`{"tool_calls": [{"index": 0, "function": {"arguments": "{\"id\""}}]}`),
		delta(`{"tool_calls": [{"index": 0, "function": {"arguments": ":7}"}}]}`))
	f("two calls, in turns", `"" a find(12), b close(34) stop 14`,
		delta(`{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "find", "arguments": "1"}}, {"index": 1, "id": "b", "function": {"name": "close", "arguments": "3"}}]}`),
		delta(`{"tool_calls": [{"index": 1, "function": {"arguments": "4"}}, {"index": 0, "function": {"arguments": "2"}}]}`))
	f("all have the number 0", `"" a find({}), b find({}) stop 13`,
		delta(`{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "find", "arguments": "{}"}}]}`),
		delta(`{"tool_calls": [{"index": 0, "id": "b", "function": {"name": "find", "arguments": "{}"}}]}`))
	f("none has a number", `"" a find({"a":1}), b find({}) stop 15`,
		delta(`{"tool_calls": [{"id": "a", "function": {"name": "find", "arguments": "{\"a\""}}]}`),
		delta(`{"tool_calls": [{"function": {"arguments": ":1}"}}]}`),
		delta(`{"tool_calls": [{"id": "b", "function": {"name": "find", "arguments": "{}"}}]}`))
	f("neither numbers nor ids", `"" call_1_0 find({"a":1}), call_1_1 close() stop 14`,
		delta(`{"tool_calls": [{"function": {"name": "find", "arguments": {"a": 1}}}, {"function": {"name": "close"}}]}`))
	f("the id comes each time", `"" a find(12) stop 12`,
		delta(`{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "find", "arguments": "1"}}]}`),
		delta(`{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "find", "arguments": "2"}}]}`))
	f("usage", `"hello"  length 9`, delta(`{"content": "hello"}`), `{"choices": [{"finish_reason": "length"}]}`, `{"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 5}}`)
	f("usage that is not", `"hello"  stop 12`, delta(`{"content": "hello"}`), `{"choices": [], "usage": {"prompt_tokens": -4, "total_tokens": "many"}}`)
	f("first what a filter says", `"hello"  stop 12`, `{"id": "", "choices": [], "prompt_filter_results": []}`, delta(`{"content": "hello"}`))
	f("thoughts are not the answer", `"hello"  stop 12`, delta(`{"reasoning_content": "hm", "content": null}`), delta(`{"content": "hello"}`))
	f("a refusal", `"no"  refusal 11`, delta(`{"refusal": "n"}`), delta(`{"refusal": "o"}`))
}

// FuzzReply checks that no sequence of documents panics, that the pieces are the text, and
// that what goes back to a server is a conversation with calls that have ids.
func FuzzReply(f *testing.F) {
	f.Add(`{"choices": [{"delta": {"content": "a", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]}}]}`, `{"choices": [], "usage": {"total_tokens": 7}}`)
	f.Add(`{"choices": [{"message": {"content": [{"type": "text", "text": "a"}], "tool_calls": [{}]}}]}`, `{"error": "x"}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		var a reply
		said := ""
		for _, doc := range []string{first, second, first} {
			v, err := value.ParseJSON([]byte(doc))
			if err != nil {
				continue
			}
			piece, err := a.take(v)
			if err != nil {
				continue
			}
			said += piece
		}
		if said != a.text.String() {
			t.Fatalf("the pieces are %q, the text %q", said, a.text.String())
		}
		a.end(1, 100)
		if a.finish == "" || a.usage.total < 0 || len(a.calls) > maxCalls+1 {
			t.Fatalf("got %+v", a)
		}
		for _, c := range get(a.message(), "tool_calls").Elems() {
			if text(c, "id") == "" {
				t.Fatalf("a call without an id: %v", c)
			}
			if _, err := value.ParseJSON([]byte(text(get(c, "function"), "arguments"))); err != nil {
				t.Fatalf("arguments that are not JSON: %v", c)
			}
		}
	})
}

// FuzzParse checks that what a model writes as JSON, in a block of code or not, is read, and
// never panics.
func FuzzParse(f *testing.F) {
	f.Add("```json\n{}\n```")
	f.Add("```")
	f.Fuzz(func(t *testing.T, in string) {
		v, err := parse(in)
		if err == nil && !strings.HasPrefix(strings.TrimSpace(in), "```") {
			again, err := parse("```json\n" + in + "\n```")
			if err != nil || !again.Equal(v) {
				t.Fatalf("%q: got %v and %v in a block", in, v, again)
			}
		}
	})
}
