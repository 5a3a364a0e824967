package ai_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/value"
)

// weather is a server of the Model Context Protocol.
func weather(t *testing.T) (url string) {
	t.Helper()
	type place struct {
		Town string `json:"town"`
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "weather.now", Description: "The weather of a town."}, func(_ context.Context, _ *sdk.CallToolRequest, in place) (*sdk.CallToolResult, any, error) {
		if in.Town == "Atlantis" {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "there is no Atlantis"}}}, nil, nil
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "rain in " + in.Town}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "weather.map", Description: "A map of the weather of a town."}, func(context.Context, *sdk.CallToolRequest, place) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "delete_all", Description: "Deletes all."}, func(context.Context, *sdk.CallToolRequest, place) (*sdk.CallToolResult, any, error) {
		t.Error("a tool was called that only does not list")
		return nil, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		web.Close()
	})
	return web.URL
}

func TestToolsFrom(t *testing.T) {
	m := modeltest.New(t, modeltest.Script(
		modeltest.Turn{Calls: []modeltest.Call{
			{Name: "weather_now", Arguments: `{"town": "Paris"}`}, {Name: "weather_now", Arguments: `{"town": "Atlantis"}`},
			{Name: "weather_now", Arguments: `{"town": 7}`}, {Name: "delete_all", Arguments: `{"town": "Paris"}`}, {Name: "find", Arguments: `{"id": 7}`},
			{Name: "weather_map", Arguments: `{"town": "Paris"}`},
		}},
		modeltest.Text("well"), modeltest.Text("again"),
	))
	f := load(t, m.URL, "tools_from: [{url: '"+weather(t)+"', only: [weather.now, weather.map]}]", oneTool)
	f.Probe("find").Do(flowtest.Answer(value.String("here")))
	expect(t, "answer", outcome(f.Send("n", value.String("x"))), "well")
	expect(t, "next answer", outcome(f.Send("n", value.String("x"))), "again")
	r := m.Requests()[1]
	expect(t, "tools", strings.Join(r.Tools, " "), "find weather_map weather_now")
	var told []string
	for _, msg := range r.Messages[2:] {
		told = append(told, msg.Content)
	}
	expect(t, "told", strings.Join(told, "; "), "rain in Paris; error: there is no Atlantis; error: the arguments do not fit the schema:\n/town: want a string, got an integer; "+
		"error: there is no tool of this name; there is find, weather_map, weather_now; here; done; the result is not text, and cannot be shown")

	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	f = load(t, m.URL, "tools_from: [{url: '"+down.URL+"'}]")
	if got := outcome(f.Send("n", value.String("x"))); !strings.HasPrefix(got, "tools 502: tools_from[0]: ") {
		t.Errorf("down: got %s", got)
	}
}
