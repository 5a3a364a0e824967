package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// front is what leads to the tools, unless a test has another.
const front = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: routes, port: in}]}}
- {kind: router, name: routes, routes: [{method: POST, path: /mcp, port: out}, {method: GET, path: /mcp, port: out}, {method: DELETE, path: /mcp, port: out}], ports: {out: [{name: tools, port: in}]}}
`

// serve starts a workflow that serves tools.
func serve(t *testing.T, document string) *flowtest.Flow {
	t.Helper()
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	f := flowtest.New(t, std.Defs("")...)
	f.Serve(document)
	return f
}

// A parking has the calls that come to the probe park.
type parking struct {
	began chan struct{} // gets something when a call has begun
	ended chan error    // gets why it has ended
	letGo chan struct{} // closed, it ends all calls
}

func park(f *flowtest.Flow) *parking {
	p := &parking{make(chan struct{}, 10), make(chan error, 10), make(chan struct{})}
	f.Probe("park").Do(func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			p.began <- struct{}{}
			select {
			case <-ctx.Done():
				p.ended <- context.Cause(ctx)
				return node.Fail(context.Cause(ctx))
			case <-p.letGo:
				return node.Answer(value.String("let go"))
			}
		})
	})
	return p
}

// connect returns a session of the official client.
func connect(t *testing.T, f *flowtest.Flow, o *sdk.ClientOptions, around http.RoundTripper) *sdk.ClientSession {
	return connectBy(t, f, "", o, around)
}

// older is a version of the protocol that has sessions.
const older = "2025-06-18"

// connectBy connects with a version of the protocol, or the newest.
func connectBy(t *testing.T, f *flowtest.Flow, version string, o *sdk.ClientOptions, around http.RoundTripper) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: "http://" + f.Address() + "/mcp", HTTPClient: &http.Client{Transport: around},
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil && !errors.Is(err, sdk.ErrSessionMissing) {
			t.Log(err)
		}
	})
	return session
}

// forms are the ways to speak with a server.
var forms = []struct{ version, sessions string }{
	{"", ""}, {older, ""}, {"", "\n  sessions: {}"}, {older, "\n  sessions: {}"},
}

// call returns what a tool answers: "ok TEXT [DATA]", or "failed TEXT".
func call(t *testing.T, s *sdk.ClientSession, tool string, arguments any) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "error " + err.Error()
	}
	var b strings.Builder
	b.WriteString("ok")
	if r.IsError {
		b.Reset()
		b.WriteString("failed")
	}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			b.WriteString(" " + c.Text)
		case *sdk.ImageContent:
			fmt.Fprintf(&b, " %s %d", c.MIMEType, len(c.Data))
		case *sdk.EmbeddedResource:
			fmt.Fprintf(&b, " %s %q", c.Resource.MIMEType, c.Resource.Blob)
		}
	}
	if r.StructuredContent != nil {
		fmt.Fprintf(&b, " [%v]", r.StructuredContent)
	}
	return b.String()
}

// ask returns the status and the beginning of the answer to a request. A header is "Name: value",
// and "body: " begins a body.
func ask(f *flowtest.Flow, method string, header ...string) string {
	fields := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	if method == http.MethodPost {
		fields["body"] = `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`
	}
	for _, h := range header {
		name, text, _ := strings.Cut(h, ": ")
		fields[name] = text
	}
	body := fields["body"]
	delete(fields, "body")
	var pairs []string
	for name, text := range fields {
		pairs = append(pairs, name, text)
	}
	r := f.Request(method, "/mcp", body, pairs...)
	return fmt.Sprintf("%d %s", r.Status, r.Body)
}

// header sets a header of each request.
type header struct{ name, text string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.text)
	return http.DefaultTransport.RoundTrip(r)
}
