// Package examples runs the workflows of this folder as they stand.
package examples

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) {
	if os.Getenv(childProgram) != "" {
		os.Exit(program())
	}
	leak.Main(m, servertest.Stop)
}

// serve starts a workflow on a free port, after replacing the first text of each
// pair by the second. It returns a function that sends a request and returns
// "STATUS BODY".
func serve(t *testing.T, file string, replaced ...string) (request func(method, path, body string) string) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	port := listen(t, file, replaced...)
	return func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost:"+port+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Status[:3] + " " + string(got)
	}
}

// listen is serve without the client: it returns the port.
func listen(t *testing.T, file string, replaced ...string) (port string) {
	t.Helper()
	return listenWith(t, file, nil, replaced...)
}

// listenWith is listen with an environment. The fast path must have served 95 % of the requests,
// which the client of the agent's tools reads in parts.
func listenWith(t *testing.T, file string, environment map[string]string, replaced ...string) (port string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(replaced); i += 2 {
		text = replace(t, text, replaced[i], replaced[i+1])
	}
	data = []byte(replace(t, text, "8000", "0"))
	address := make(chan string, 1)
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs(""), Log: slog.New(addressOf(address))})
	if err != nil {
		t.Fatal(err)
	}
	list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: file, Data: data}}, Environment: environment})
	if err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	_, port, err = net.SplitHostPort(<-address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		figures := make(map[string]float64)
		for _, f := range engine.Metrics().Figures {
			figures[f.Metric.Name] += f.Metric.Value
		}
		if all, fast := figures["http_answers_total"], figures["http_fast_path_total"]; fast < 0.95*all && file != "agent.yaml" {
			t.Errorf("%s: the fast path has served %v of %v requests", file, fast, all)
		}
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return port
}

// replace replaces what must be there.
func replace(t *testing.T, text, old, now string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("the example has no %q", old)
	}
	return strings.ReplaceAll(text, old, now)
}

// An addressOf is the log of an engine that is asked only where it listens.
type addressOf chan string

func (addressOf) Enabled(context.Context, slog.Level) bool { return true }
func (a addressOf) WithAttrs([]slog.Attr) slog.Handler     { return a }
func (a addressOf) WithGroup(string) slog.Handler          { return a }
func (a addressOf) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if r.Message == "listening" && attr.Key == "address" {
			a <- attr.Value.String()
		}
		return true
	})
	return nil
}

func TestPing(t *testing.T) {
	request := serve(t, "ping.yaml")
	f := func(method, path, want string) {
		t.Helper()
		if got := request(method, path, ""); got != want {
			t.Errorf("%s %s: got %q, want %q", method, path, got, want)
		}
	}
	f("GET", "/ping", "200 pong")
	f("HEAD", "/ping", "200 ")
	f("POST", "/ping", "405 Method Not Allowed")
	f("GET", "/pong", "404 Not Found")
	f("GET", "/users/:x", "404 Not Found")
	f("GET", "/static/*", "404 Not Found")
}

func TestPrices(t *testing.T) {
	request := serve(t, "prices.yaml")
	f := func(method, path, body, want string) {
		t.Helper()
		if got := request(method, path, body); got != want {
			t.Errorf("%s %s %s: got %q, want %q", method, path, body, got, want)
		}
	}
	f("POST", "/orders", `{"item": "tea", "count": 3}`, `201 {"item":"tea","count":3,"total":12}`)
	f("POST", "/orders", `{"item": "tea"}`, "422 an order has an item and a count above 0")
	f("POST", "/orders", `[null]`, "422 an order has an item and a count above 0")
	f("POST", "/orders", `{"a":[{}]}`, "422 an order has an item and a count above 0")
	f("POST", "/orders", `{"item": "milk", "count": 1}`, "404 no milk here")
	f("POST", "/orders", `{`, "400 body: JSON, line 1, column 2: unexpected end, want a name in quotes")
	f("GET", "/greet/ada", "", "200 hello ada")
}
