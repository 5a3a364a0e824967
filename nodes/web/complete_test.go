package web

import (
	"context"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// What request.Complete makes is what a listener makes of a request of a client.
func TestComplete(t *testing.T) {
	payloads := make(chan value.Value, 1)
	s := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		payloads <- payload
		return reply(value.Null())
	})
	f := func(given string, bytes ...string) {
		t.Helper()
		v, err := value.ParseJSON([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		made, err := request.Complete(v.With(envelope.KeyHost, value.String(s.node.addr())))
		if err != nil {
			t.Fatal(err)
		}
		message := ""
		for _, line := range bytes {
			message += line + "\r\n"
		}
		if _, err := s.raw(message); err != nil {
			t.Fatal(err)
		}
		sent := <-payloads
		header, _ := sent.Get(envelope.KeyHeader) // without what is about the connection
		if got := sent.With(envelope.KeyHeader, header.Without("Content-Length")); !got.Equal(made) {
			t.Errorf("a client sends %v, Complete makes %v", got, made)
		}
	}
	host := "Host: " + s.node.addr()
	f(`null`, "GET / HTTP/1.1", host, "")
	f(`{"path": "/caf%C3%A9/a%2Fb?x=1&x=&y", "header": {"x-key": ["a", "b"]}}`, "GET /caf%C3%A9/a%2Fb?x=1&x=&y HTTP/1.1", host, "X-Key: a", "X-KEY: b", "")
	f(`{"query": {"at": "2 &", "tag": ["x", "y"]}}`, "GET /?tag=x&at=2+%26&tag=y HTTP/1.1", host, "")
	f(`{"method": "PUT", "body": {"a": [1, null]}}`, "PUT / HTTP/1.1", host, "Content-Type: application/json", "Content-Length: 17", "", `{"a": [1, null]}`)
	f(`{"body": "text"}`, "POST / HTTP/1.1", host, "Content-Type: text/plain; charset=utf-8", "Content-Length: 4", "", `text`)
	f(`{"body": {"a": ["1"]}, "header": {"Content-Type": "application/x-www-form-urlencoded"}}`,
		"POST / HTTP/1.1", host, "Content-Type: application/x-www-form-urlencoded", "Content-Length: 3", "", `a=1`)
}
