package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRoutes demands a table that a mux and readers can use.
func TestRoutes(t *testing.T) {
	mux := http.NewServeMux()
	for _, r := range Routes() {
		mux.Handle(r.Pattern(), http.NotFoundHandler()) // panics if two are the same
		if r.Doc == "" || strings.HasSuffix(r.Doc, ".") {
			t.Errorf("%s: got the doc %q, want a phrase", r.Pattern(), r.Doc)
		}
		if r.Scope < Control && r.Method != http.MethodGet && !r.Asks && r.Scope != Open && r.Path != "/debug/pprof/symbol" && r.Path != CodePath {
			t.Errorf("%s changes something and needs %s only", r.Pattern(), r.Scope)
		}
	}
	for _, name := range ScopeNames() {
		if s, ok := ParseScope(name); !ok || s.String() != name {
			t.Errorf("%s: got %v", name, s)
		}
	}
	if _, ok := ParseScope("open"); ok {
		t.Error("open is a scope that can be asked for")
	}
}

// TestDocument has a schema for each type, and nothing that leads nowhere.
func TestDocument(t *testing.T) {
	data, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	operations := 0
	for _, path := range document.Paths {
		operations += len(path)
	}
	if operations != len(Routes()) {
		t.Errorf("got %d operations for %d routes", operations, len(Routes()))
	}
	refs := 0
	for _, part := range strings.Split(string(data), `"$ref": "#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		refs++
		if document.Components.Schemas[name] == nil {
			t.Errorf("%s has no schema", name)
		}
	}
	if refs < 20 || document.Components.Schemas["Metrics"]["properties"].(map[string]any)["rows"] == nil {
		t.Errorf("got %d references in %s", refs, data)
	}
	for _, want := range []string{"export interface DiagramNode {", "  rows: NodeMetrics[];", "  since?: string;", "  dropped?: number;", "export interface Hello {"} {
		if !strings.Contains(string(TypeScript()), want+"\n") {
			t.Errorf("got no %q in\n%s", want, TypeScript())
		}
	}
}

func TestClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, `{"message": "no token", "hint": "send one"}`, http.StatusUnauthorized)
		case r.URL.Path == EventsPath:
			_, _ = w.Write([]byte("event: hello\ndata: {\"generation\":1}\n\n: \n\nevent: metrics\ndata: {}\n\nevent: metrics\n")) // the client has left
		default:
			_, _ = w.Write([]byte(`{"version": "v1", "more": true}`)) // the client has left
		}
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	c := &Client{Address: strings.TrimPrefix(server.URL, "http://"), Token: "secret", HTTP: server.Client()}
	var status Status
	if err := c.Get(t.Context(), StatusPath, &status); err != nil || status.Version != "v1" {
		t.Errorf("got %+v, %v", status, err)
	}
	var got []string
	if err := c.Events(t.Context(), func(e Event) error {
		got = append(got, e.Type+" "+string(e.Data))
		return nil
	}); err != nil || strings.Join(got, ", ") != `hello {"generation":1}, metrics {}` {
		t.Errorf("got %q, %v", got, err)
	}
	c.Token = ""
	var failed *StatusError
	if err := c.Get(t.Context(), StatusPath, &status); !errors.As(err, &failed) || failed.Status != 401 || failed.Answer.Hint != "send one" {
		t.Errorf("got %v", err)
	}
}
