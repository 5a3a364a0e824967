package ai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/format/sse"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// codeTooLong is the code of a conversation that the model does not take.
const codeTooLong = "context"

// A failure is why a turn has no answer.
type failure struct {
	code   string
	status int // of the server; 0 if it did not answer
	after  time.Duration
	again  bool // the request may be sent again, if nothing of the answer has gone out
	text   string
}

func (f *failure) Error() string { return f.text }

// free reports whether the server has not worked on the request: it was not reached, or has
// refused it. Of any other failure the tokens count.
func (f *failure) free() bool {
	switch f.code {
	case "connect", "tls", "auth", "quota", "rate", "model", codeTooLong:
		return true
	}
	return f.status != 0
}

var (
	errSilence = errors.New("the server is silent")
	errTimeout = errors.New("the turn takes too long")
)

// node returns the error as workflows see it.
func (f *failure) node(label string) error {
	e := &node.Error{Err: errors.New(label + ": " + f.text), Code: f.code, RetryAfter: f.after, Status: http.StatusBadGateway}
	switch f.code {
	case "rate", "quota":
		e.Status = http.StatusServiceUnavailable
	case "silence", "timeout":
		e.Status = http.StatusGatewayTimeout
	case codeTooLong:
		e.Status, e.Permanent = http.StatusInternalServerError, true // see [node.Unusable]
	}
	if f.status != 0 {
		e.Data = object("status", f.status)
	}
	return e
}

// classify describes why an exchange ended. ctx is the context of the process.
func (n *llm) classify(ctx, limited context.Context, err error) error {
	var known *failure
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.As(err, &known) {
		return known
	}
	switch cause := context.Cause(limited); {
	case errors.Is(cause, errSilence):
		return &failure{code: "silence", text: fmt.Sprintf("the server has sent nothing for %v", n.silence)}
	case errors.Is(cause, errTimeout):
		return &failure{code: "timeout", text: fmt.Sprintf("no complete answer within %v", n.timeout)}
	}
	why := httpclient.Explain(err)
	text := why.Error()
	switch {
	case errors.Is(err, httpclient.ErrTooLarge), errors.Is(err, sse.ErrTooLong):
		return &failure{code: "too_large", text: fmt.Sprintf("the answer has more than limits.answer_bytes, which are %d", n.answerBytes)}
	case why.Code == httpclient.CodeTLS:
		return &failure{code: "tls", text: text}
	case why.Away, why.Code == httpclient.CodeTimeout: // limited has the other times
		return &failure{code: "connect", again: true, text: text + ": is the server running, and url right?"}
	}
	return &failure{code: "cut", again: true, text: text}
}

// refused describes an answer of another status than 200.
func (r *run) refused(resp *http.Response) *failure {
	f := &failure{status: resp.StatusCode, after: httpclient.RetryAfter(resp.Header, r.n.clock.Now())}
	doc := value.Null()
	if body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err == nil {
		if v, err := value.ParseJSON(body); err == nil {
			doc = get(v, "error")
			if doc.IsNull() {
				doc = v
			}
		}
	}
	r.explain(f, doc)
	if f.code == "" {
		r.explainStatus(f)
	}
	return f
}

// explain describes the error document of a server, as far as its codes are known.
func (r *run) explain(f *failure, doc value.Value) {
	message := text(doc, "message")
	if s, ok := doc.AsString(); ok { // Ollama
		message = s
	}
	if message == "" {
		message = text(doc, "detail") // FastAPI
	}
	code, lower := text(doc, "code")+" "+text(doc, "type"), strings.ToLower(message)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(code, part) || strings.Contains(lower, part) {
				return true
			}
		}
		return false
	}
	switch {
	case f.status == http.StatusUnauthorized, f.status == http.StatusForbidden, has("invalid_api_key", "authentication_error"):
		f.code, f.text = "auth", "the server refuses the key" // what it says may have the key
		if r.n.header.Get("Authorization") == "" {
			f.text = "the server asks for a key: set key"
		}
	case has("insufficient_quota", "billing"):
		f.code, f.text = "quota", "the account of the key has nothing left"
	case has("context_length", "context length", "context_size", "context size", "maximum context", "context window", "too many tokens", "prompt is too long"):
		f.code, f.text = codeTooLong, fmt.Sprintf("the conversation is too long for the model %q", r.n.model)
	case has("model_not_found", "model not found") || (f.status == http.StatusNotFound || f.status == http.StatusBadRequest) && strings.Contains(lower, "model") && has("not found", "does not exist", "unknown model", "not_found", "invalid model", "not a valid model"):
		f.code, f.text = "model", fmt.Sprintf("the server does not have the model %q", r.n.model)
	}
	f.text += r.quote(message, f.code)
}

// explainStatus describes an answer by its status alone.
func (r *run) explainStatus(f *failure) {
	switch {
	case f.status == http.StatusTooManyRequests:
		f.code, f.again, f.text = "rate", true, "too many requests"+f.text
	case f.status == http.StatusRequestTimeout, f.status >= 500 && f.status != http.StatusNotImplemented:
		f.code, f.again, f.text = "server", true, fmt.Sprintf("the server failed with status %d", f.status)+f.text
	case f.status == http.StatusNotFound, f.status == http.StatusMethodNotAllowed:
		f.code, f.text = "not_found", fmt.Sprintf("the server has nothing at this path (status %d): url is where its API begins, such as http://HOST/v1", f.status)+f.text
	case f.status >= 300 && f.status < 400:
		f.code, f.text = "not_found", fmt.Sprintf("the server answers with a redirect (status %d): set url to where it leads", f.status)
	case f.status == http.StatusRequestEntityTooLarge:
		f.code, f.text = codeTooLong, "the conversation is too long for the server"+f.text
	default:
		f.code, f.text = "request", fmt.Sprintf("the server refuses the request with status %d", f.status)+f.text
	}
}

// quote returns what a server says, to be appended to a message, if it may be shown: what
// is about the key may have the key, and some servers repeat the conversation.
func (r *run) quote(message, code string) string {
	message = strings.ToValidUTF8(node.Clip(strings.Join(strings.Fields(message), " "), maxQuote), "")
	if message == "" || code == "auth" || r.repeats(message) {
		return ""
	}
	return ": " + message
}

// repeated is how many bytes of the conversation an error may have by chance.
const repeated = 12

// repeats reports whether a text has a part of the conversation in it.
func (r *run) repeats(message string) bool {
	for _, m := range r.messages {
		for _, content := range []string{content(get(m, "content")), arguments(m)} {
			content = strings.Join(strings.Fields(content), " ")
			if len(content) <= repeated {
				if len(content) > 3 && strings.Contains(message, content) {
					return true
				}
				continue
			}
			for i := 0; i+repeated <= len(message); i++ {
				if strings.Contains(content, message[i:i+repeated]) {
					return true
				}
			}
		}
	}
	return false
}

// arguments returns the arguments of all calls of a message, joined.
func arguments(m value.Value) string {
	var b strings.Builder
	for _, c := range get(m, "tool_calls").Elems() {
		b.WriteString(text(get(c, "function"), "arguments"))
	}
	return b.String()
}

// maxQuote is how much of another's text a message shows, in bytes.
const maxQuote = 300
