package client

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/value"
)

// TestHeader expects that requests have the headers, and that the token is not sent to
// where a redirect leads.
func TestHeader(t *testing.T) {
	var seen atomic.Int32
	fields := serve(t, &sdk.StreamableHTTPOptions{Stateless: true}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer hush" || r.Header.Get("X-Team") != "shop" {
				t.Errorf("got headers %v", r.Header)
			}
			seen.Add(1)
			h.ServeHTTP(w, r)
		})
	})
	c := open(t, "{"+fields+`, "token": "hush", "header": {"x-team": "shop"}}`)
	if _, err := c.Call(t.Context(), "count", text("x"), nil); err != nil || seen.Load() == 0 {
		t.Error(err, seen.Load())
	}
}

// TestEnvironment expects that a program gets what is written, and no secrets of this one.
func TestEnvironment(t *testing.T) {
	t.Setenv("SHOP_SECRET", "hush")
	c := open(t, "{"+program(t, "yes", `"TOKEN": "mine"`)+"}")
	r, err := c.Call(t.Context(), "env", value.Map(), nil)
	if err != nil || strings.Contains(r.Text, "hush") || !strings.Contains(r.Text, "TOKEN=mine") || !strings.Contains(r.Text, "PATH=") {
		t.Errorf("got %s, %v", r.Text, err)
	}
}

// TestMistakes expects each mistake at its field.
func TestMistakes(t *testing.T) {
	for fields, want := range map[string]string{
		`{}`:                                               "neither a url nor a command",
		`{"url": "http://a", "command": ["b"]}`:            "command: both a url and a command",
		`{"command": []}`:                                  "command: the program has no name",
		`{"url": "ftp://a"}`:                               "url: want a URL of http or https",
		`{"url": "http://"}`:                               "url: the URL has no host",
		`{"url": "http://u:p@a"}`:                          "url: a URL must not contain credentials",
		`{"command": ["a"], "token": "x"}`:                 "token: a program is not called over HTTP",
		`{"url": "http://a", "environment": {}}`:           "environment: the server at a url is not started here",
		`{"url": "http://a", "header": {"a b": "c"}}`:      "header: must be a map of text",
		`{"url": "http://a", "header": [1]}`:               "header: must be a map of text",
		`{"command": ["a"], "environment": {"a=b": "c"}}`:  "environment: must be a map of text",
		`{"url": "http://a", "token": "a\nb"}`:             "token: the token has control characters",
		`{"url": "https://a", "tls": {"cert": "no-file"}}`: "tls: a certificate needs both cert and key",
	} {
		if _, err := settings(t, fields, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
}
