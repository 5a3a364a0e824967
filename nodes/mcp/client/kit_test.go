package client

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// settings reads fields of JSON.
func settings(t *testing.T, fields string, log *slog.Logger) (*Settings, error) {
	t.Helper()
	v, err := value.ParseJSON([]byte(fields))
	if err != nil {
		t.Fatal(err)
	}
	config, list := schema.Fields(Fields()...).Decode(schema.RawOf(v))
	if list.HasErrors() {
		t.Fatal(list)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return New(&node.Init{Config: config, Log: log, Programs: node.AllowPrograms()}, config)
}

func open(t *testing.T, fields string) *Client {
	t.Helper()
	s, err := settings(t, fields, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, release, err := s.Open(new(node.Pool))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// serve starts a server of HTTP, and returns its URL as a field.
func serve(t *testing.T, o *sdk.StreamableHTTPOptions, around func(http.Handler) http.Handler) string {
	t.Helper()
	s := server()
	h := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o))
	if around != nil {
		h = around(h)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		web.Close()
	})
	return `"url": "` + web.URL + `/mcp"`
}

func program(t *testing.T, how string, more ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := `"` + asServer + `": "` + how + `"`
	for _, pair := range more {
		env += ", " + pair
	}
	return `"command": [` + strconv.Quote(self) + `], "environment": {` + env + `}`
}

func text(s string) value.Value { return value.Map(value.Field{Name: "text", Value: value.String(s)}) }
