package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

const hookSecret = "a secret of the webhook"

// TestAuthBehindListener checks signatures of bodies as they were sent, and the answers to
// clients.
func TestAuthBehindListener(t *testing.T) {
	port := freeport.Port(t)
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs(""), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	document := fmt.Sprintf(`
- {kind: listener, name: web, protocol: http, host: 127.0.0.1, port: %d, ports: {out: [{name: guard, port: in}]}}
- kind: auth
  name: guard
  realm: hooks
  any:
    - {type: hmac, preset: slack, keys: [{id: slack, secret: %s}]}
    - {type: key, keys: [{id: shop, secret: a-key-of-some-length}]}
    - {type: jwt, keys: [{algorithms: [HS256], secret: an example of at least 32 bytes!}]}
  ports: {out: [{name: who, port: in}]}
- {kind: snippet, name: who, language: cel, code: '[auth.subject, body]'}
`, port, hookSecret)
	findings, err := engine.Apply(context.Background(), uniflow.Source{Documents: []spec.Document{{File: "hooks.yaml", Data: []byte(document)}}})
	if err != nil || findings.HasErrors() {
		t.Fatal(findings, err)
	}
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	f := func(what string, body []byte, want string, header ...string) http.Header {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", port), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(resp.StatusCode, " ", string(text)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
		return resp.Header
	}
	at := fmt.Sprint(time.Now().Unix())
	signed := func(body []byte, more ...string) []string {
		mac := hmac.New(sha256.New, []byte(hookSecret))
		fmt.Fprintf(mac, "v0:%s:%s", at, body)
		return append(more, "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	}
	spaced := []byte(`{"b":  1, "a": 2}`)
	f("signed", spaced, `200 ["slack",{"b":1,"a":2}]`, signed(spaced, "Content-Type", "application/json")...)
	f("again", spaced, "409 the request came before", signed(spaced, "Content-Type", "application/json")...)
	form := []byte("text=a%20b&z=")
	f("form", form, `200 ["slack",{"text":["a b"],"z":[""]}]`, signed(form, "Content-Type", "application/x-www-form-urlencoded")...)
	f("empty", nil, `200 ["slack",null]`, signed(nil)...)
	f("changed", []byte("{}"), "401 the signature is wrong", signed(spaced)...)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(spaced)
	z.Close()
	f("packed", packed.Bytes(), `200 ["slack",{"b":1,"a":2}]`, signed(packed.Bytes(), "Content-Type", "application/json", "Content-Encoding", "gzip")...)

	f("key", spaced, `200 ["shop",`, "X-API-Key", "a-key-of-some-length")
	h := f("nothing", make([]byte, 1<<20), `401 {"type":"about:blank","title":"Unauthorized","status":401,"detail":"credentials are missing"`, "Accept", "application/json")
	want := []string{`Signature realm="hooks", header="X-Slack-Signature"`, `ApiKey realm="hooks", in=header, name="X-Api-Key"`, `Bearer realm="hooks"`}
	if got := h.Values("WWW-Authenticate"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	h = f("forged", nil, "401 the token is malformed", "Authorization", "Bearer abc")
	if got := h.Values("WWW-Authenticate")[2]; got != `Bearer realm="hooks", error="invalid_token", error_description="the token is malformed"` {
		t.Errorf("got %s, want what is wrong with the token", got)
	}
}
