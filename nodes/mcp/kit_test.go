package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// A world is a workflow that serves tools.
type world struct {
	t     *testing.T
	flow  *flowtest.Flow
	url   string
	began chan struct{} // gets something when a call of park has begun
	ended chan error    // gets why it has ended
	letGo chan struct{} // ends it
}

// front is what leads to the tools, unless a test has another.
const front = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: routes, port: in}]}}
- {kind: router, name: routes, routes: [{method: POST, path: /mcp, port: out}, {method: GET, path: /mcp, port: out}, {method: DELETE, path: /mcp, port: out}], ports: {out: [{name: tools, port: in}]}}
`

func serve(t *testing.T, document string) *world {
	t.Helper()
	return serveWith(t, 0, document)
}

// serveWith is serve with so many bytes of memory.
func serveWith(t *testing.T, memory int64, document string) *world {
	t.Helper()
	w := &world{t: t, began: make(chan struct{}, 10), ended: make(chan error, 10), letGo: make(chan struct{})}
	park := &node.Def{
		Kind: "park", Summary: "Waits.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					w.began <- struct{}{}
					select {
					case <-ctx.Done():
						w.ended <- context.Cause(ctx)
						return node.Fail(context.Cause(ctx))
					case <-w.letGo:
						return node.Send(0, value.String("let go"))
					}
				})
			}), nil
		},
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	w.flow = flowtest.New(t, append(std.Defs(""), park)...)
	w.flow.Options.Memory = memory
	w.flow.Serve(document)
	w.url = "http://" + w.flow.Address() + "/mcp"
	return w
}

// connect returns a session of the official client.
func (w *world) connect(o *sdk.ClientOptions, around http.RoundTripper) *sdk.ClientSession {
	return w.connectBy("", o, around)
}

// older is a version of the protocol that has sessions.
const older = "2025-06-18"

// connectBy connects with a version of the protocol, or the newest.
func (w *world) connectBy(version string, o *sdk.ClientOptions, around http.RoundTripper) *sdk.ClientSession {
	w.t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(w.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: w.url, HTTPClient: &http.Client{Transport: around},
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := session.Close(); err != nil && !errors.Is(err, sdk.ErrSessionMissing) {
			w.t.Log(err)
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

// ask returns the status and the beginning of the answer to a request.
func (w *world) ask(method string, header ...string) string {
	w.t.Helper()
	body := `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`
	if method != http.MethodPost {
		body = ""
	}
	for _, h := range header {
		if text, ok := strings.CutPrefix(h, "body: "); ok {
			body = text
		}
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range header {
		name, text, _ := strings.Cut(h, ": ")
		switch name {
		case "body":
		case "Host":
			req.Host = text
		default:
			req.Header.Set(name, text)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, data)
}

// header sets a header of each request.
type header struct{ name, text string }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.text)
	return http.DefaultTransport.RoundTrip(r)
}
