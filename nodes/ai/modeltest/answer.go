package modeltest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// object makes a map of names and values: text, numbers and values.
func object(pairs ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i+1 < len(pairs); i += 2 {
		v, err := value.Encode(pairs[i+1])
		if err != nil {
			panic(err) // a bug of this package
		}
		b.Set(pairs[i].(string), v)
	}
	return b.Build()
}

func encode(v value.Value) []byte {
	data, err := v.AppendJSON(nil)
	if err != nil {
		panic(err) // there are only texts and numbers
	}
	return data
}

// answer does what the model's turn says. It reports whether the client has stayed.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, req Request) (stayed bool) {
	t := h.model(req)
	if t.Silent {
		<-r.Context().Done()
		return false
	}
	if t.Status != 0 && t.Status != http.StatusOK {
		writeError(w, t)
		return true
	}
	kind := "application/json"
	if req.Stream {
		kind = "text/event-stream"
	}
	if t.Type != "" {
		kind = t.Type
	}
	w.Header().Set("Content-Type", kind)
	o := &output{w: w, control: http.NewResponseController(w), request: r, turn: t}
	// The header goes out by itself, as it does where a model thinks for long.
	err := o.control.Flush()
	switch {
	case err != nil:
	case t.Body != "":
		err = o.write([]byte(t.Body))
	case req.Stream:
		err = stream(o, req, t)
	default:
		err = whole(o, req, t)
	}
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler) // the way in which net/http breaks a connection
	}
	return err == nil
}

var errCut = errors.New("the connection breaks here")

// An output is the body of an answer, with what is wrong with it.
type output struct {
	w       http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	turn    Turn
	sent    int
}

// write sends bytes until the turn says that it stops.
func (o *output) write(data []byte) error {
	for len(data) > 0 {
		n := len(data)
		if o.turn.Write > 0 {
			n = min(n, o.turn.Write)
		}
		for _, stop := range []int{o.turn.Cut, o.turn.Stall} {
			if stop > o.sent {
				n = min(n, stop-o.sent)
			}
		}
		if _, err := o.w.Write(data[:n]); err != nil {
			return err
		}
		if err := o.control.Flush(); err != nil {
			return err
		}
		data = data[n:]
		switch o.sent += n; o.sent {
		case o.turn.Cut:
			return errCut
		case o.turn.Stall:
			<-o.request.Context().Done()
			return o.request.Context().Err()
		}
	}
	return nil
}

// wait waits for the time of the next token.
func (o *output) wait() error {
	done := o.request.Context().Done()
	if o.turn.Every > 0 {
		timer := time.NewTimer(o.turn.Every)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return o.request.Context().Err()
		}
	}
	if o.turn.Next != nil {
		select {
		case <-o.turn.Next:
		case <-done:
			return o.request.Context().Err()
		}
	}
	return nil
}

// tokens returns the text of a turn in pieces.
func (t Turn) tokens() (all []string) {
	var piece []byte
	for _, r := range t.Text {
		if piece = append(piece, string(r)...); len(piece) >= 4 {
			all, piece = append(all, string(piece)), nil
		}
	}
	if len(piece) > 0 {
		all = append(all, string(piece))
	}
	return append(all, t.Tokens...)
}

func (t Turn) finish() string {
	switch {
	case t.Finish != "":
		return t.Finish
	case len(t.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// calls returns the calls of a turn, each with an id.
func (t Turn) calls(req Request) []Call {
	all := make([]Call, len(t.Calls))
	for i, c := range t.Calls {
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d_%d", len(req.Messages), i)
		}
		all[i] = c
	}
	return all
}

// usage counts a token for each piece, and one for four bytes of arguments.
func usage(req Request, t Turn) value.Value {
	prompt, completion := promptTokens(req), len(t.tokens())
	for _, c := range t.Calls {
		completion += 1 + len(c.Arguments)/4
	}
	return object("prompt_tokens", prompt, "completion_tokens", completion, "total_tokens", prompt+completion)
}

// stream sends a turn as events.
func stream(o *output, req Request, t Turn) error {
	chunk := func(delta value.Value, finish any) error {
		choice := object("index", 0, "delta", delta, "finish_reason", finish)
		return event(o, encode(object("id", "chatcmpl-1", "object", "chat.completion.chunk", "created", 1, "model", req.Model, "choices", []value.Value{choice})))
	}
	if err := chunk(object("role", "assistant", "content", ""), nil); err != nil {
		return err
	}
	for _, token := range t.tokens() {
		if err := o.wait(); err != nil {
			return err
		}
		if err := chunk(object("content", token), nil); err != nil {
			return err
		}
	}
	for i, c := range t.calls(req) {
		// The arguments come in two pieces, after the name.
		half := len(c.Arguments) / 2
		deltas := []value.Value{
			object("index", i, "id", c.ID, "type", "function", "function", object("name", c.Name, "arguments", "")),
			object("index", i, "function", object("arguments", c.Arguments[:half])),
			object("index", i, "function", object("arguments", c.Arguments[half:])),
		}
		for _, d := range deltas {
			if err := chunk(object("tool_calls", []value.Value{d}), nil); err != nil {
				return err
			}
		}
	}
	if err := chunk(value.Map(), t.finish()); err != nil {
		return err
	}
	asked, _ := get(get(req.Body, "stream_options"), "include_usage").AsBool()
	if asked && !t.NoUsage {
		if err := event(o, encode(object("id", "chatcmpl-1", "object", "chat.completion.chunk", "choices", []value.Value{}, "usage", usage(req, t)))); err != nil {
			return err
		}
	}
	return event(o, []byte("[DONE]"))
}

func event(o *output, data []byte) error {
	return o.write(append(append([]byte("data: "), data...), "\n\n"...))
}

// whole sends a turn as one document.
func whole(o *output, req Request, t Turn) error {
	var said string
	for _, token := range t.tokens() {
		if err := o.wait(); err != nil {
			return err
		}
		said += token
	}
	message := object("role", "assistant", "content", said)
	var calls []value.Value
	for _, c := range t.calls(req) {
		calls = append(calls, object("id", c.ID, "type", "function", "function", object("name", c.Name, "arguments", c.Arguments)))
	}
	if len(calls) > 0 {
		message = message.With("tool_calls", value.List(calls...))
	}
	choice := object("index", 0, "message", message, "finish_reason", t.finish())
	doc := object("id", "chatcmpl-1", "object", "chat.completion", "created", 1, "model", req.Model, "choices", []value.Value{choice})
	if !t.NoUsage {
		doc = doc.With("usage", usage(req, t))
	}
	return o.write(encode(doc))
}
