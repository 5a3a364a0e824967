package ai_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/value"
)

// outcome shows a response: the text of an answer, or code, status and message of an error.
func outcome(r node.Response) string {
	if !r.IsError() {
		said, _ := r.Payload.Get("text")
		return said.String()
	}
	e := node.Describe(r.Payload.AsError())
	after := ""
	if e.RetryAfter > 0 {
		after = fmt.Sprintf(" (after %v)", e.RetryAfter)
	}
	return fmt.Sprintf("%s %d%s: %s", e.Code, e.Status, after, node.Message(e))
}

// secretPrompt is in no error and in no log.
const secretPrompt = "my password is hunter2-and-more"

func ask(t *testing.T, f *flowtest.Flow) string {
	t.Helper()
	got := outcome(f.Send("n", value.String(secretPrompt)))
	if strings.Contains(got+f.Log(), "hunter2") || strings.Contains(got+f.Log(), "sk-secret") {
		t.Errorf("the key or the prompt is in %s\n%s", got, f.Log())
	}
	return got
}

// TestMisbehaving has what servers do wrong, and what becomes of it. HOST stands for the
// address of the server.
func TestMisbehaving(t *testing.T) {
	for _, mode := range []string{"stream: false", "stream: true"} {
		f := func(name, want string, wantRequests int, fields string, turns ...modeltest.Turn) {
			t.Helper()
			t.Run(mode+"/"+name, func(t *testing.T) {
				m := modeltest.New(t, modeltest.Script(turns...))
				flow := flowtest.New(t, kinds()...)
				flow.Load(document(m.URL, mode, "retry: {threshold: 2}", fields))
				got := strings.ReplaceAll(ask(t, flow), strings.TrimSuffix(m.URL, "/v1"), "HOST")
				expect(t, name, got, want)
				if n := len(m.Requests()); n != wantRequests {
					t.Errorf("%s: got %d requests, want %d", name, n, wantRequests)
				}
			})
		}
		good := modeltest.Text("well")
		busy := modeltest.Turn{Status: 429, RetryAfter: 7 * time.Second, Code: "rate_limit_exceeded", Message: "Rate limit reached"}
		f("429 once", "well", 2, "", busy, good)
		f("429 for long", "rate 503 (after 7s): HOST: too many requests: Rate limit reached", 3, "", busy, busy, busy, good)
		f("429 for hours", "rate 503 (after 1h0m0s): HOST: too many requests: Too Many Requests", 1, "", modeltest.Turn{Status: 429, RetryAfter: time.Hour}, good)
		f("nothing left", "quota 503: HOST: the account of the key has nothing left: You exceeded your current quota", 1, "",
			modeltest.Turn{Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota"}, good)
		f("500 and 503", "well", 3, "", modeltest.Turn{Status: 500}, modeltest.Turn{Status: 503}, good)
		f("500 for long", "server 502: HOST: the server failed with status 500: oh no", 3, "", modeltest.Turn{Status: 500, Message: "oh no"}, modeltest.Turn{Status: 500, Message: "oh no"}, modeltest.Turn{Status: 500, Message: "oh no"})
		f("400", "request 502: HOST: the server refuses the request with status 400: temperature is too high", 1, "", modeltest.Turn{Status: 400, Message: "temperature is too high"}, good)
		f("400 that repeats the conversation", "request 502: HOST: the server refuses the request with status 400", 1, "", modeltest.Turn{Status: 400, Message: "Input should be valid: 'my password is hunter2-and-more'"}, good)
		f("401", "auth 502: HOST: the server refuses the key", 1, "key: sk-secret", modeltest.Turn{Status: 401, Message: "Incorrect API key provided: sk-secret"}, good)
		f("403 without a key", "auth 502: HOST: the server asks for a key: set key", 1, "", modeltest.Turn{Status: 403, Message: "no"}, good)
		f("silence", "silence 504: HOST: the server has sent nothing for 50ms", 1, "limits: {silence: 50ms}", modeltest.Turn{Silent: true}, good)
		f("too slow", "timeout 504: HOST: no complete answer within 50ms", 1, "timeout: 50ms", modeltest.Turn{Silent: true}, good)
		f("silence after the header", "silence 504: HOST: the server has sent nothing for 50ms", 1, "limits: {silence: 50ms}", modeltest.Turn{Text: "half an answer", Stall: 20}, good)
		f("cut before the first piece", "well", 2, "", modeltest.Turn{Text: "half", Cut: 10}, good)
		f("cut each time", "cut 502: HOST: the connection was closed before the answer was complete", 3, "", modeltest.Turn{Text: "half", Cut: 10}, modeltest.Turn{Text: "half", Cut: 10}, modeltest.Turn{Text: "half", Cut: 10}, good)
		f("a page of HTML", "answer 502: HOST: the answer is not JSON: is url right? (Content-Type \"text/html\")", 1, "", modeltest.Turn{Body: "<html>Welcome</html>", Type: "text/html"}, good)
		f("half a document", "answer 502: HOST: the answer is not JSON: is url right? (Content-Type \"application/json\")", 1, "", modeltest.Turn{Body: `{"choices": [{"mess`, Type: "application/json"}, good)
		f("half an event", "answer 502: HOST: an event of the answer is not JSON", 1, "", modeltest.Turn{Body: "data: {\"choices\": [{\"de\n\n", Type: "text/event-stream"}, good)
		f("another document", "answer 502: HOST: what came is not an answer of a model: it has no choices", 1, "", modeltest.Turn{Body: `{"status": "ok"}`, Type: "application/json"}, good)
		f("an empty stream", "answer 502: HOST: what came is not an answer of a model: it has no choices", 1, "", modeltest.Turn{Body: "data: [DONE]\n\n", Type: "text/event-stream"}, good)
		f("an error within", "well", 2, "", modeltest.Turn{Body: "data: {\"error\": {\"message\": \"overloaded\", \"type\": \"server_error\"}}\n\n", Type: "text/event-stream"}, good)
		f("a context error within", "context 500: HOST: the conversation is too long for the model \"small\": the request exceeds the available context size", 1, "",
			modeltest.Turn{Body: `{"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}`, Type: "application/json"}, good)
		f("too large", "too_large 502: HOST: the answer has more than limits.answer_bytes, which are 1024", 1, "limits: {answer_bytes: 1KiB}", modeltest.Text(strings.Repeat("many words ", 1000)), good)
		f("no usage", "well", 1, "", modeltest.Turn{Text: "well", NoUsage: true})
		f("no word at the end", "well", 1, "", modeltest.Turn{Body: "data: {\"choices\": [{\"delta\": {\"content\": \"well\"}}]}\n\ndata: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n", Type: "text/event-stream"})
		said := "data: {\"choices\": [{\"delta\": {\"content\": \"well\"}, \"finish_reason\": \"stop\"}]}\n\n"
		f("silence after the last piece", "well", 1, "limits: {silence: 50ms}", modeltest.Turn{Body: said, Type: "text/event-stream", Stall: len(said)})
		said += "data: [DONE]\n\n"
		f("silence after the end", "well", 1, "", modeltest.Turn{Body: said, Type: "text/event-stream", Stall: len(said)})
		f("no end", "cut 502: HOST: the connection was closed before the answer was complete", 1, "", modeltest.Turn{Body: "data: {\"choices\": [{\"delta\": {\"content\": \"well\"}}]}\n\n", Type: "text/event-stream"}, good)
		f("a list of parts", "well", 1, "", modeltest.Turn{Body: `{"choices": [{"message": {"content": [{"type": "text", "text": "we"}, {"type": "text", "text": "ll"}]}}]}`, Type: "application/json"})
		f("a refusal", "I cannot help with that", 1, "", modeltest.Turn{Body: `{"choices": [{"message": {"content": null, "refusal": "I cannot help with that"}}]}`, Type: "application/json"})
		f("a redirect", "not_found 502: HOST: the server answers with a redirect (status 307): set url to where it leads", 1, "", modeltest.Turn{Status: 307}, good)
	}
}

// TestMistakes has what is wrong on this side.
func TestMistakes(t *testing.T) {
	m := modeltest.New(t, func(modeltest.Request) modeltest.Turn { return modeltest.Text("well") }).Key("sk-secret").Models("large").Context(4)
	f := func(url, fields, want string) {
		t.Helper()
		flow := flowtest.New(t, kinds()...)
		flow.Load(fmt.Sprintf("- {kind: llm, name: n, url: '%s', retry: {threshold: 0}, %s}", url, fields))
		got := strings.ReplaceAll(ask(t, flow), strings.TrimSuffix(m.URL, "/v1"), "HOST")
		expect(t, fields, got, want)
	}
	f(m.URL, "model: small", "auth 502: HOST: the server asks for a key: set key")
	f(m.URL, "model: small, key: wrong", "auth 502: HOST: the server refuses the key")
	f(m.URL, "model: small, key: sk-secret", "model 502: HOST: the server does not have the model \"small\": The model `small` does not exist or you do not have access to it.")
	f(m.URL, "model: large, key: sk-secret", "context 500: HOST: the conversation is too long for the model \"large\": This model's maximum context length is 4 tokens. However, your messages resulted in 8 tokens.")
	f(strings.TrimSuffix(m.URL, "/v1")+"/api", "model: large, key: sk-secret", "not_found 502: HOST: the server has nothing at this path (status 404): url is where its API begins, such as http://HOST/v1: Invalid URL (POST /api/chat/completions)")

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	flow := load(t, closed.URL+"/v1", "retry: {threshold: 1, backoff: {initial: 0s}}")
	if got := ask(t, flow); !strings.HasPrefix(got, "connect 502: "+closed.URL+": dial tcp ") || !strings.HasSuffix(got, "connection refused: is the server running, and url right?") {
		t.Errorf("down: got %s", got)
	}
	flow.Load(document(strings.Replace(m.URL, "http://", "https://", 1)))
	if got := ask(t, flow); !strings.HasPrefix(got, "tls 502: https://") {
		t.Errorf("https: got %s", got)
	}
}

// TestRetryWaits checks that a wait is as long as the server asks for.
func TestRetryWaits(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(modeltest.Turn{Status: 429, RetryAfter: 20 * time.Second}, modeltest.Turn{Status: 503}, modeltest.Text("well")))
	f := flowtest.New(t, kinds()...)
	f.Load(document(m.URL, "retry: {backoff: {initial: 1s, jitter: 0}}"))
	began := f.Now()
	expect(t, "answer", ask(t, f), "well")
	if took := f.Now().Sub(began); took != 22*time.Second {
		t.Errorf("took %v, want 20 s and 2 s", took)
	}
}

// TestCutEverywhere cuts an answer after each of its bytes. Before the first piece of text
// the request is sent again; after it, the answer has an error. Nothing passes for an answer
// that is not one.
func TestCutEverywhere(t *testing.T) {
	turn := modeltest.Turn{Tokens: []string{"öne ", "twö"}, Write: 1}
	whole := modeltest.Turn{Tokens: turn.Tokens, Write: 1}
	f := func(fields, text string, first func(at int, cut string, parts []string)) {
		t.Helper()
		at := 0
		m := modeltest.New(t, func(r modeltest.Request) modeltest.Turn {
			if at > 0 && r.Number == 0 {
				turn.Cut = at
				return turn
			}
			return whole
		})
		flow := load(t, m.URL, fields, "retry: {backoff: {initial: 0s}}")
		for at = 1; ; at++ {
			m.Reset()
			var c collector
			got := outcome(run(t, flow, &c, `"x"`))
			first(at, got, c.all())
			if len(m.Requests()) == 1 && got == text {
				break
			}
			if at > 10_000 {
				t.Fatal("the answer has no end")
			}
		}
	}
	const text = "öne twö"
	pieces := 0
	f("stream: true", text, func(at int, got string, parts []string) {
		said := strings.Join(parts, "")
		switch {
		case got == text && said == text:
		case strings.HasPrefix(got, "cut 502: ") && (said == "öne " || said == text): // not sent again
			pieces++
		default:
			t.Fatalf("cut after %d bytes: got %s and the parts %q", at, got, parts)
		}
	})
	if pieces < 100 {
		t.Errorf("%d cuts after the first piece, want more", pieces)
	}
	f("stream: false", text, func(at int, got string, parts []string) {
		if got != text || len(parts) > 0 {
			t.Fatalf("cut after %d bytes: got %s and the parts %q", at, got, parts)
		}
	})
}

// TestStallAfterPiece checks that silence between two pieces ends an answer, and that a slow
// receiver is not the server's silence.
func TestStallAfterPiece(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(modeltest.Turn{Tokens: []string{"one ", "two"}, Stall: 400}, modeltest.Text("one two three")))
	f := load(t, m.URL, "stream: true", "limits: {silence: 60ms}")
	var c collector
	if got := outcome(run(t, f, &c, `"x"`)); !strings.HasPrefix(got, "silence 504") || len(c.all()) == 0 {
		t.Errorf("got %s after %q", got, c.all())
	}
	slow := collector{took: func(int) error {
		waited := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { close(waited) })
		<-waited
		return nil
	}}
	expect(t, "slow receiver", outcome(run(t, f, &slow, `"x"`)), "one two three")
}

// TestClientLeaves checks that the server is not left talking to itself.
func TestClientLeaves(t *testing.T) {
	m := modeltest.New(t, func(modeltest.Request) modeltest.Turn {
		next := make(chan struct{}, 1)
		next <- struct{}{} // for the first
		return modeltest.Turn{Tokens: []string{"one", "two", "three"}, Next: next}
	})
	for _, fields := range []string{"stream: true", "{stream: true, ports: {part: [{name: piece}]}}"} {
		f := load(t, m.URL, strings.NewReplacer("{stream: true, ", "stream: true\n  ", "]}}", "]}").Replace(fields))
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client has left")
		c := collector{took: func(int) error { cancel(left); return nil }}
		f.Probe("piece").Do(func(_ node.Process, pkt node.Packet) node.Result { cancel(left); return node.None() })
		_, _, err := f.Engine().Run(node.WithParts(ctx, &c), "n", value.String("x"))
		if err == nil || !strings.Contains(err.Error(), "left") {
			t.Errorf("%s: got %v", fields, err)
		}
	}
	m.Close()
	if m.Left() != 2 {
		t.Errorf("%d clients left, want 2", m.Left())
	}
	refuses := collector{took: func(int) error { return errors.New("the socket is closed") }}
	m = modeltest.New(t, modeltest.Script(modeltest.Text("one two")))
	f := load(t, m.URL, "stream: true")
	expect(t, "parts refused", outcome(run(t, f, &refuses, `"x"`)), " 0: the socket is closed")
}
