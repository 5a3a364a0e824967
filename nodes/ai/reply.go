package ai

import (
	"errors"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// A reply is the answer of one turn as far as it has come. It reads what compatible servers
// send, which differ: see the comments.
type reply struct {
	text    strings.Builder
	refusal strings.Builder
	calls   []call
	finish  string
	usage   usage
	began   bool // there was a choice
}

// A call is a tool that the model calls.
type call struct {
	id, name, arguments string
	index               int64 // as the server numbers it; -1 if it does not
}

// A usage is a number of tokens.
type usage struct {
	prompt, completion, total int64
	estimated                 bool
}

func (u *usage) add(v usage) {
	u.prompt += v.prompt
	u.completion += v.completion
	u.total += v.total
	u.estimated = u.estimated || v.estimated
}

func (u usage) value() value.Value {
	v := object("prompt_tokens", int(u.prompt), "completion_tokens", int(u.completion), "total_tokens", int(u.total))
	if u.estimated {
		v = v.With("estimated", value.Bool(true))
	}
	return v
}

// A serverError is an error that a server reports in an answer of status 200.
type serverError struct{ doc value.Value }

func (e *serverError) Error() string { return "the server reports an error" }

// errNotAnswer is the error of a document that is JSON, but not an answer.
var errNotAnswer = errors.New("it has no choices")

// take adds a document: an event of a stream, or a whole answer. It returns the piece of
// text in it.
func (a *reply) take(doc value.Value) (piece string, err error) {
	if e := get(doc, "error"); !e.IsNull() {
		return "", &serverError{e}
	}
	if u := get(doc, "usage"); u.Kind() == value.KindMap {
		a.usage = readUsage(u)
	}
	choices := get(doc, "choices")
	if choices.Len() == 0 {
		if choices.Kind() != value.KindList && get(doc, "usage").IsNull() && get(doc, "id").IsNull() {
			return "", errNotAnswer
		}
		return "", nil // usage comes by itself, and Azure begins with what its filters say
	}
	a.began = true
	choice := choices.At(0)
	if finish := text(choice, "finish_reason"); finish != "" {
		a.finish = finish
	}
	delta := get(choice, "delta")
	if delta.IsNull() {
		delta = get(choice, "message")
	}
	a.refusal.WriteString(text(delta, "refusal"))
	for _, c := range get(delta, "tool_calls").Elems() {
		a.takeCall(c)
	}
	piece = content(get(delta, "content"))
	a.text.WriteString(piece)
	return piece, nil
}

// content returns the text of a message. Some servers send a list of parts.
func content(v value.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	var b strings.Builder
	for _, part := range v.Elems() {
		if text(part, "type") == "text" {
			b.WriteString(text(part, "text"))
		}
	}
	return b.String()
}

// takeCall adds a piece of a call. Most servers number them. Some do not, and some give each
// the number 0: an id that differs begins another one.
func (a *reply) takeCall(c value.Value) {
	index := int64(-1)
	if i, ok := get(c, "index").AsInt(); ok {
		index = i
	}
	id, function := text(c, "id"), get(c, "function")
	at := -1
	for i := range a.calls {
		same := a.calls[i].index == index && index >= 0 || index < 0 && (id == "" && i == len(a.calls)-1 && text(function, "name") == "")
		if same && (id == "" || id == a.calls[i].id || a.calls[i].id == "") || id != "" && id == a.calls[i].id {
			at = i
		}
	}
	if at < 0 {
		if len(a.calls) > maxCalls { // one more than are run, so that the model gets an error for it
			return
		}
		a.calls = append(a.calls, call{index: index})
		at = len(a.calls) - 1
	}
	entry := &a.calls[at]
	if entry.id == "" {
		entry.id = id
	}
	if entry.name == "" { // which comes whole, and from some servers each time
		entry.name = text(function, "name")
	}
	switch arguments := get(function, "arguments"); arguments.Kind() {
	case value.KindString:
		s, _ := arguments.AsString()
		entry.arguments += s
	case value.KindMap: // some send the object itself
		if data, err := arguments.AppendJSON(nil); err == nil {
			entry.arguments = string(data)
		}
	}
}

func readUsage(v value.Value) usage {
	count := func(name string) int64 {
		n, _ := get(v, name).AsInt()
		return min(max(0, n), 1<<40) // sums of them must not overflow
	}
	u := usage{prompt: count("prompt_tokens"), completion: count("completion_tokens"), total: count("total_tokens")}
	u.total = max(u.total, u.prompt+u.completion)
	return u
}

// end completes an answer that has come to its end: ids of calls, and what it has used if
// the server did not say. sent is how many bytes the conversation has.
func (a *reply) end(turn, sent int) {
	for i := range a.calls {
		if a.calls[i].id == "" {
			a.calls[i].id = "call_" + strconv.Itoa(turn) + "_" + strconv.Itoa(i)
		}
	}
	if a.finish == "" {
		a.finish = "stop"
	}
	if a.refusal.Len() > 0 && a.text.Len() == 0 {
		a.finish = "refusal"
		a.text.WriteString(a.refusal.String())
	}
	if a.usage.total == 0 {
		got := a.text.Len()
		for _, c := range a.calls {
			got += len(c.name) + len(c.arguments)
		}
		a.usage = usage{prompt: tokens(sent), completion: tokens(got), estimated: true}
		a.usage.total = a.usage.prompt + a.usage.completion
	}
}

// tokens estimates how many tokens a number of bytes are.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// message returns the answer as the next request has it.
func (a *reply) message() value.Value {
	m := object("role", "assistant", "content", a.text.String())
	if len(a.calls) == 0 {
		return m
	}
	calls := make([]value.Value, len(a.calls))
	for i, c := range a.calls {
		arguments := c.arguments
		if _, err := value.ParseJSON([]byte(arguments)); err != nil {
			arguments = "{}" // some servers refuse a conversation in which they are malformed
		}
		calls[i] = object("id", c.id, "type", "function", "function", object("name", c.name, "arguments", arguments))
	}
	return m.With("tool_calls", value.List(calls...))
}
