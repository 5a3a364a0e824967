package ai_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/value"
)

// TestBudgetOfFailures counts what a server has read without giving an answer, also when it
// is asked again, and nothing that it has refused. A prompt has 40 tokens.
func TestBudgetOfFailures(t *testing.T) {
	prompt := value.String(strings.Repeat("0123456789abcdef", 10))
	f := func(name, fields string, turn modeltest.Turn, want ...string) {
		t.Helper()
		m := modeltest.New(t, func(modeltest.Request) modeltest.Turn { return turn })
		flow := load(t, m.URL, fields, "max_tokens: 10", "budget: {key: 100}")
		for i, want := range want {
			if got := outcome(flow.Send("n", prompt)); !strings.HasPrefix(got, want+" ") {
				t.Errorf("%s, packet %d: got %s, want %s", name, i+1, got, want)
			}
		}
	}
	f("too slow", "timeout: 20ms", modeltest.Turn{Silent: true}, "timeout", "timeout", "budget")
	f("cut, and sent again", "retry: {threshold: 1, backoff: {initial: 0s}}", modeltest.Turn{Text: "half", Cut: 10}, "cut", "budget")
	tooLong := modeltest.Turn{Body: `{"error": {"message": "the request exceeds the available context size"}}`, Type: "application/json"}
	f("refused within the answer", "", tooLong, "context", "context", "context", "context")
	f("refused", "", modeltest.Turn{Status: http.StatusBadRequest}, "request", "request", "request", "request")
}

// TestComments checks that a server which keeps the connection open is not silent, although
// its answer takes long, and that an answer is complete without the word at its end.
func TestComments(t *testing.T) {
	f := func(before, after int, fields ...string) {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			tick := time.NewTicker(25 * time.Millisecond)
			defer tick.Stop()
			for i := range before + after {
				if i == before {
					fmt.Fprint(w, "data: {\"choices\": [{\"delta\": {\"content\": \"well\"}, \"finish_reason\": \"stop\"}]}\n\n")
				}
				fmt.Fprint(w, ": thinking\n\n")
				w.(http.Flusher).Flush()
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		}))
		defer s.Close()
		flow := load(t, s.URL, append(fields, "stream: true")...)
		began := time.Now()
		expect(t, "answer", outcome(flow.Send("n", value.String("x"))), "well")
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	f(60, 1, "limits: {silence: 1s}")
	f(0, 1<<20, "limits: {silence: 50ms}", "timeout: 0s")
}
