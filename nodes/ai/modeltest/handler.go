package modeltest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/value"
)

// A handler checks requests, and says what its model decides.
type handler struct {
	model   Model
	key     string
	models  []string
	context int
	mu      struct {
		sync.Mutex
		requests []Request
		left     int
	}
}

// maxKept bounds the requests that a handler keeps.
const maxKept = 10_000

func (h *handler) all() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.requests)
}

// ServeHTTP answers a request, unless it is refused.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		return // the client has left, or sends without end
	}
	req, refused := h.check(r, body)
	if refused != nil {
		writeError(w, *refused)
		return
	}
	h.mu.Lock()
	req.Number = len(h.mu.requests)
	if req.Number < maxKept {
		h.mu.requests = append(h.mu.requests, req)
	}
	h.mu.Unlock()
	if h.answer(w, r, req) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.left++
}

// check reads a request, or returns how it is refused.
func (h *handler) check(r *http.Request, body []byte) (req Request, refused *Turn) {
	bad := func(format string, args ...any) (Request, *Turn) {
		return req, &Turn{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.URL.Path != "/v1/chat/completions":
		return req, &Turn{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"}
	case r.Method != http.MethodPost:
		return req, &Turn{Status: http.StatusMethodNotAllowed, Message: "Method not allowed"}
	case h.key != "" && r.Header.Get("Authorization") != "Bearer "+h.key:
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return req, &Turn{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "Incorrect API key provided: " + given}
	case r.Header.Get("Content-Type") != "application/json":
		return bad("Content-Type is not application/json")
	}
	v, err := value.ParseJSON(body)
	if err != nil {
		return bad("We could not parse the JSON body of your request: %v", err)
	}
	req = Request{Header: r.Header, Body: v, Model: text(v, "model"), Format: get(v, "response_format")}
	req.Stream, _ = get(v, "stream").AsBool()
	most, _ := get(v, "max_tokens").AsInt()
	req.MaxTokens = int(most)
	if req.Model == "" {
		return bad("you must provide a model parameter")
	}
	if len(h.models) > 0 && !slices.Contains(h.models, req.Model) {
		return req, &Turn{Status: http.StatusNotFound, Code: "model_not_found", Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", req.Model)}
	}
	for _, t := range get(v, "tools").Elems() {
		name := text(get(t, "function"), "name")
		if text(t, "type") != "function" || name == "" || get(get(t, "function"), "parameters").Kind() != value.KindMap {
			return bad("Invalid tool: it needs the type function, a name and parameters")
		}
		req.Tools = append(req.Tools, name)
	}
	if req.Messages, err = messages(get(v, "messages")); err != nil {
		return bad("%v", err)
	}
	if used := promptTokens(req); h.context > 0 && used > h.context {
		return req, &Turn{Status: http.StatusBadRequest, Code: "context_length_exceeded", Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.", h.context, used)}
	}
	return req, nil
}

// messages reads a conversation. Each call of a tool needs an answer, and only these may
// have one.
func messages(list value.Value) (all []Message, err error) {
	if list.Len() == 0 {
		return nil, fmt.Errorf("invalid 'messages': empty array")
	}
	open := make(map[string]bool)
	for i, v := range list.Elems() {
		m := Message{Role: text(v, "role"), Content: text(v, "content"), CallID: text(v, "tool_call_id")}
		if m.Role != "tool" && len(open) > 0 {
			return nil, fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'")
		}
		switch m.Role {
		case "system", "user", "developer":
			if get(v, "content").Kind() != value.KindString && get(v, "content").Kind() != value.KindList {
				return nil, fmt.Errorf("invalid value for 'messages.[%d].content': expected a string", i)
			}
		case "assistant":
			for _, c := range get(v, "tool_calls").Elems() {
				call := Call{ID: text(c, "id"), Name: text(get(c, "function"), "name"), Arguments: text(get(c, "function"), "arguments")}
				if call.ID == "" || call.Name == "" || text(c, "type") != "function" {
					return nil, fmt.Errorf("invalid 'messages[%d].tool_calls'", i)
				}
				m.Calls = append(m.Calls, call)
				open[call.ID] = true
			}
		case "tool":
			if !open[m.CallID] {
				return nil, fmt.Errorf("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
			}
			delete(open, m.CallID)
		default:
			return nil, fmt.Errorf("invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'tool' and 'developer'", m.Role)
		}
		all = append(all, m)
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'")
	}
	return all, nil
}

func get(v value.Value, name string) value.Value {
	field, _ := v.Get(name)
	return field
}

func text(v value.Value, name string) string {
	s, _ := get(v, name).AsString()
	return s
}

// promptTokens returns how many tokens a conversation has.
func promptTokens(r Request) (n int) {
	for _, m := range r.Messages {
		n += (len(m.Content) + 3) / 4
	}
	return n
}

// writeError answers with the error of a turn.
func writeError(w http.ResponseWriter, t Turn) {
	code, message := t.Code, t.Message
	if message == "" {
		message = http.StatusText(t.Status)
	}
	w.Header().Set("Content-Type", "application/json")
	if t.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(t.RetryAfter.Seconds())))
	}
	w.WriteHeader(t.Status)
	kind := "invalid_request_error"
	if t.Status >= 500 {
		kind = "server_error"
	}
	_, _ = w.Write(encode(object("error", object("message", message, "type", kind, "code", code)))) // a client that has left does not need it
}
