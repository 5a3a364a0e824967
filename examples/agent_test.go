package examples

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
)

// agentModel looks order 7 up, and asks for a price and a delivery time side by side.
func agentModel() modeltest.Model {
	return func(r modeltest.Request) modeltest.Turn {
		var results []string
		for _, m := range r.Messages {
			if m.Role == "tool" {
				results = append(results, m.Content)
			}
		}
		switch {
		case !strings.Contains(r.Messages[1].Content, "order 7"):
			return modeltest.Turn{Status: 500, Message: "the tower is on fire"}
		case len(results) == 0:
			return modeltest.CallTool("find_order", `{"id": 7}`)
		case len(results) == 1:
			return modeltest.Turn{Calls: []modeltest.Call{{Name: "price", Arguments: `{"item": "tea", "count": 3}`}, {Name: "delivery", Arguments: `{"country": "DE"}`}}}
		}
		return modeltest.Text("Order 7 is on its way. " + strings.Join(results, " "))
	}
}

// TestAgent asks the agent, and calls its tools, over HTTP and on standard input and
// output, with the client of the official SDK.
func TestAgent(t *testing.T) {
	model := modeltest.New(t, agentModel()).Models("qwen3")
	t.Run("http", func(t *testing.T) {
		port := listen(t, "agent.yaml", "http://127.0.0.1:11434/v1", model.URL)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		agentCalls(t, &sdk.StreamableClientTransport{Endpoint: "http://127.0.0.1:" + port + "/mcp", HTTPClient: client})
	})
	t.Run("stdio", func(t *testing.T) {
		data, err := os.ReadFile("agent.yaml")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "agent.yaml")
		if err := os.WriteFile(file, []byte(replace(t, string(data), "http://127.0.0.1:11434/v1", model.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "mcp", file)
		cmd.Env = append(os.Environ(), childProgram+"=1", "GORACE=atexit_sleep_ms=0")
		agentCalls(t, &sdk.CommandTransport{Command: cmd})
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("the program ended with %v", cmd.ProcessState)
		}
	})
}

func agentCalls(t *testing.T, transport sdk.Transport) {
	t.Helper()
	var mu sync.Mutex
	var pieces []string
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			pieces = append(pieces, r.Params.Message)
		},
	}).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil && !errors.Is(err, sdk.ErrConnectionClosed) {
			t.Error(err)
		}
	}()
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if want := []string{"ask", "delivery", "find_order", "price"}; !slices.Equal(names, want) {
		t.Errorf("got tools %v, want %v", names, want)
	}
	call := func(tool string, arguments map[string]any) string {
		params := &sdk.CallToolParams{Name: tool, Arguments: arguments}
		params.SetProgressToken(tool)
		r, err := s.CallTool(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		text := r.Content[0].(*sdk.TextContent).Text
		if r.IsError {
			return "failed: " + text
		}
		return text
	}
	const answer = `Order 7 is on its way. {"id":7,"item":"tea","count":3,"state":"sent","country":"DE"} {"item":"tea","count":3,"cents":1200} {"country":"DE","days":2}`
	if got := call("ask", map[string]any{"question": "where is order 7?"}); got != answer {
		t.Errorf("got %s, want %s", got, answer)
	}
	if got := call("find_order", map[string]any{"id": 9}); got != "failed: there is no order 9" {
		t.Errorf("got %s", got)
	}
	if got := call("price", map[string]any{"item": "milk", "count": 1}); !strings.HasPrefix(got, "failed: the arguments do not match the schema: /item: want one of \"tea\", \"coffee\"") {
		t.Errorf("got %s", got)
	}
	if got := call("ask", map[string]any{"question": "burn"}); !strings.HasPrefix(got, "failed: the tool has failed") || strings.Contains(got, "tower") {
		t.Errorf("got %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(pieces, ""); len(pieces) < 10 || !strings.HasPrefix(answer, got[:min(len(got), 100)]) {
		t.Errorf("got pieces %q of the answer", pieces)
	}
}
