// Package examples runs the workflows of this folder as they stand.
package examples

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) {
	if os.Getenv(childLoader) != "" {
		os.Exit(program())
	}
	leak.Main(m)
}

// serve starts a workflow, and returns what answers requests to localhost:8000
// as "STATUS BODY".
func serve(t *testing.T, file string) (request func(method, path, body string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	list, err := engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: file, Data: data}}})
	if err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: transport}
	return func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost:8000"+path, strings.NewReader(body))
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

func TestPing(t *testing.T) {
	for _, file := range []string{"ping.yaml", "ping-legacy.yaml"} {
		t.Run(file, func(t *testing.T) {
			request := serve(t, file)
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
		})
	}
}

func TestOrders(t *testing.T) {
	request := serve(t, "orders.yaml")
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
