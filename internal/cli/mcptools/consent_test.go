package mcptools

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestConsent takes the answer of a person for what was asked alone: not with other arguments, which may show the same
// question, and not twice.
func TestConsent(t *testing.T) {
	server, tools := New(t.Context(), Options{})
	defer tools.Close()
	here, there := sdk.NewInMemoryTransports()
	session, err := server.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{}},
	}).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(client.Close(), session.Wait()); err != nil {
			t.Error(err)
		}
	}()
	call := func(what, arguments, state, action string) error {
		p := &sdk.CallToolParamsRaw{Arguments: json.RawMessage(arguments), RequestState: state}
		if action != "" {
			p.InputResponses = sdk.InputResponseMap{answerKey: &sdk.ElicitResult{Action: action}}
		}
		return tools.consent(&sdk.CallToolRequest{Session: session, Params: p}, what)
	}
	ask := func() string {
		t.Helper()
		q, ok := errors.AsType[*question](call("Do it?", `{"n": 1}`, "", ""))
		if !ok || q.text != "Do it?" {
			t.Fatalf("got %+v, want the question", q)
		}
		return q.state
	}
	state := ask()
	if err := call("Do it?", `{"n": 1}`, state, "accept"); err != nil {
		t.Errorf("a person has agreed: %v", err)
	}
	for name, c := range map[string]struct{ what, arguments, state, action, want string }{
		"twice":           {"Do it?", `{"n": 1}`, state, "accept", "answers no question"},
		"other arguments": {"Do it?", `{"n": 2}`, ask(), "accept", "not any more what the person was asked about"},
		"another deed":    {"Do that?", `{"n": 1}`, ask(), "accept", "not any more what the person was asked about"},
		"no":              {"Do it?", `{"n": 1}`, ask(), "decline", "the person said no"},
	} {
		if err := call(c.what, c.arguments, c.state, c.action); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
