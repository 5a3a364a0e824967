package flow

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

const toolFlow = `
- {kind: listener, name: web, port: 1, ports: {out: [{name: tools, port: in}]}}
- kind: mcp
  name: tools
  tools:
    - {name: add, description: Adds., input: {properties: {a: {type: integer}, b: {type: integer}}, required: [a, b]}}
    - {name: wait, description: Waits.}
  ports:
    out[0]: [{name: add, port: in}]
    out[1]: [{name: wait, port: in}]
- {kind: snippet, name: add, language: cel, code: string(a + b)}
- {kind: sleep, name: wait, interval: 1h}
`

// serveTools runs mcp, and returns the side of the client.
func serveTools(t *testing.T, signals chan os.Signal, args ...string) (client *sdk.IOTransport, ended func() (code int, errs string)) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	var errs bytes.Buffer
	m := apptest.Machine(out, &errs, nil)
	m.Stdin = in
	m.Signals = func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} }
	var server sync.WaitGroup
	var code int
	server.Go(func() {
		code = app.Main(context.Background(), append([]string{"mcp"}, args...), m, root)
		out.Close()
	})
	return &sdk.IOTransport{Reader: fromServer, Writer: toServer}, func() (int, string) {
		server.Wait()
		return code, errs.String()
	}
}

func connectTools(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// TestMCP serves tools on standard input and output, without the port of the listener.
func TestMCP(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", toolFlow)
	transport, ended := serveTools(t, nil, "f.yaml")
	s := connectTools(t, transport)
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "add", Arguments: map[string]any{"a": 1, "b": 2}})
	if err != nil || r.Content[0].(*sdk.TextContent).Text != "3" {
		t.Error(r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if code, errs := ended(); code != 0 || errs != "" {
		t.Errorf("got %d, %s", code, errs)
	}
}

// TestMCPSignal ends with a signal, although a call runs.
func TestMCPSignal(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", toolFlow)
	signals := make(chan os.Signal, 1)
	transport, ended := serveTools(t, signals, "f.yaml", "tools")
	s := connectTools(t, transport)
	var call sync.WaitGroup
	call.Go(func() {
		if r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "wait"}); err == nil && !r.IsError {
			t.Errorf("got %v", r)
		}
	})
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Error(err)
	}
	signals <- syscall.SIGINT
	code, errs := ended()
	if code != app.SignalCode(syscall.SIGINT) {
		t.Errorf("got %d, %s", code, errs)
	}
	call.Wait()
	_ = s.Close() // the server has left
}

// TestMCPPiped answers all requests of a client that writes them and closes its output.
func TestMCPPiped(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", toolFlow)
	transport, ended := serveTools(t, nil, "f.yaml", "--grace", "1m")
	var writing sync.WaitGroup
	writing.Go(func() {
		text := `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}` + "\n" +
			`{"jsonrpc": "2.0", "method": "notifications/initialized"}` + "\n"
		for i := range 20 {
			text += fmt.Sprintf(`{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "add", "arguments": {"a": %d, "b": 100}}}`+"\n", i+2, i)
		}
		if _, err := io.WriteString(transport.Writer, text); err != nil {
			t.Error(err)
		}
		if err := transport.Writer.Close(); err != nil {
			t.Error(err)
		}
	})
	answers := bufio.NewScanner(transport.Reader)
	got := make(map[string]bool)
	for answers.Scan() {
		for i := range 20 {
			if strings.Contains(answers.Text(), fmt.Sprintf(`"text":"%d"`, 100+i)) {
				got[fmt.Sprint(i)] = true
			}
		}
	}
	writing.Wait()
	if code, errs := ended(); code != 0 || len(got) != 20 {
		t.Errorf("got %d, %s with %d answers, want 20", code, errs, len(got))
	}
}

// TestMCPLeft ends when the client leaves, although a call runs.
func TestMCPLeft(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", toolFlow)
	transport, ended := serveTools(t, nil, "f.yaml", "--grace", "10ms")
	request := func(text string) {
		if _, err := io.WriteString(transport.Writer, text+"\n"); err != nil {
			t.Error(err)
		}
	}
	answers := bufio.NewScanner(transport.Reader)
	request(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}`)
	if !answers.Scan() || !strings.Contains(answers.Text(), `"serverInfo"`) {
		t.Fatal(answers.Text(), answers.Err())
	}
	request(`{"jsonrpc": "2.0", "method": "notifications/initialized"}`)
	request(`{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}`)
	request(`{"jsonrpc": "2.0", "id": 3, "method": "ping"}`)
	if !answers.Scan() || !strings.Contains(answers.Text(), `"id":3`) {
		t.Fatal(answers.Text(), answers.Err())
	}
	if err := transport.Writer.Close(); err != nil {
		t.Error(err)
	}
	var rest sync.WaitGroup
	rest.Go(func() { _, _ = io.Copy(io.Discard, transport.Reader) }) // until the server closes its output
	defer rest.Wait()
	if code, errs := ended(); code != 0 {
		t.Errorf("got %d, %s", code, errs)
	}
}

// TestMCPMistakes expects what is wrong on standard error, and nothing for the client.
func TestMCPMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "two.yaml", toolFlow+strings.NewReplacer("name: tools", "name: more", "name: web", "name: other", "port: 1", "port: 2").Replace(toolFlow[:strings.Index(toolFlow, "- {kind: snippet")]))
	apptest.Write(t, "none.yaml", goodSpec)
	apptest.Write(t, "out.yaml", toolFlow+"- {kind: stdout, name: screen}\n")
	apptest.Write(t, "wrong.yaml", wrongSpec)
	for _, row := range []struct {
		args string
		code int
		want string
	}{
		{"two.yaml", app.ExitUsage, "which node? There are 2"},
		{"two.yaml mere", app.ExitUsage, "more"},
		{"none.yaml", app.ExitUsage, "there is no node of kind mcp"},
		{"out.yaml", app.ExitUsage, "stdout would write between"},
		{"wrong.yaml", app.ExitFindings, "kode: unknown field"},
		{"-", app.ExitUsage, "standard input is for the client"},
		{"none.yaml --from-values -", app.ExitUsage, "standard input is for the client"},
		{"missing.yaml", app.ExitFindings, "missing.yaml"},
		{"", app.ExitUsage, "mcp takes files"},
	} {
		code, out, errs := apptest.Execute(t, root, nil, append([]string{"mcp"}, strings.Fields(row.args)...)...)
		if code != row.code || !strings.Contains(errs, row.want) || out != "" {
			t.Errorf("mcp %s: got %d, %q, %s", row.args, code, out, errs)
		}
	}
}
