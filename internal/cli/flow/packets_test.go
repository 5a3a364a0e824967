package flow

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// TestShow hides what is secret, and bounds what is shown.
func TestShow(t *testing.T) {
	s := newPacketLog(slog.New(slog.DiscardHandler), []string{"*"})
	s.learn(&sources{environment: map[string]string{"A": "hunter2", "B": "hunter2!", "C": "eu", "D": "8000", "E": "", "F": "short"}})
	f := func(v value.Value, want string) {
		t.Helper()
		if got := s.show(v); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(of(t, map[string]any{"a": []any{1, true, nil, "x\x1b"}}), `{"a":[1,true,null,"x\x1b"]}`)
	f(value.String("hunter2"), `"[redacted]"`)
	f(value.String("postgres://u:hunter2!@db"), `"postgres://u:[redacted]@db"`)
	f(value.Map(value.Field{Name: "is hunter2", Value: value.Int(8000)}), `{"is [redacted]":[redacted]}`)
	f(value.String("eu"), `"[redacted]"`)
	f(value.String("it is short"), `"it is [redacted]"`) // a payload has no words of the program
	f(value.String("neutral"), `"neutral"`)              // it has eu in it
	f(value.Error(errors.New("no hunter2")), `error "no [redacted]"`)
	f(value.Binary([]byte("\x00hunter2")), `binary "\x00[redacted]"`)
	f(of(t, map[string]any{"header": map[string]any{"authorization": []any{"Bearer x"}}}), `{"header":{"authorization":[redacted]}}`)
	f(of(t, map[string]any{"Set-Cookie": "x"}), `{"Set-Cookie":[redacted]}`)

	// What is cut off may not leave the beginning of a secret.
	for at := maxPayload - 20; at < maxPayload+20; at++ {
		got := s.show(value.String(strings.Repeat("x", at) + "hunter2" + strings.Repeat("y", 1<<20)))
		if strings.Contains(got, "hunt") || len(got) > maxPayload+len("…") {
			t.Fatalf("at %d: got %s", at, got[len(got)-30:])
		}
	}
	var deep value.Value
	for range 100_000 {
		deep = value.List(deep, deep)
	}
	// What the engine knows may be longer than what the documents say, and than what is shown.
	key := strings.Repeat("k3y", maxPayload)
	s.redact = func(text string) string { return strings.ReplaceAll(text, key, redact.Hidden) }
	for _, v := range []value.Value{value.String(strings.Repeat("x", maxPayload-50) + key), value.Binary([]byte(strings.Repeat("x", maxPayload-50) + key))} {
		if got := s.show(v); strings.Contains(got, "k3y") {
			t.Errorf("got %q", got)
		}
	}
	if got := s.show(deep); len(got) > maxPayload+len("…") {
		t.Errorf("got %d bytes", len(got))
	}
	if got := s.show(value.String(strings.Repeat("é", maxPayload))); strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("got %s", got)
	}
}

func of(t *testing.T, v any) value.Value {
	t.Helper()
	made, err := value.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestPacketRate bounds how much is logged, and says what was left out.
func TestPacketRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := newPacketLog(slog.New(slog.NewTextHandler(&log, nil)), []string{everyNode})
		o := p.observer()
		send := func() {
			o.Sent(observe.Packet{Process: idOnly{}, Node: node.Ref{Name: "a"}, Payload: value.Int(1)})
		}
		for range 1000 {
			send()
		}
		if got := strings.Count(log.String(), "\n"); got != packetBurst {
			t.Errorf("got %d records, want %d", got, packetBurst)
		}
		<-time.After(time.Second)
		send()
		if want := fmt.Sprintf("skipped=%d", 1000-packetBurst); !strings.Contains(log.String(), want) {
			t.Errorf("got no %s", want)
		}
	})
}

// idOnly is a process that only has an id.
type idOnly struct{ node.Process }

func (idOnly) ID() string { return "p" }

func TestNoPackets(t *testing.T) {
	if newPacketLog(nil, nil).observer() != nil {
		t.Error("got an observer, want none where no node is named")
	}
}

// TestDebugNodes logs the packets of the nodes that are named, a trigger among them,
// without what env has put into them.
func TestDebugNodes(t *testing.T) {
	t.Chdir(t.TempDir())
	port := freeport.Port(t)
	apptest.Write(t, "f.yaml", fmt.Sprintf("- {kind: listener, name: web, host: 127.0.0.1, port: %d, ports: {out: [{name: hidden, port: in}]}}\n"+
		"- {kind: pipe, name: hidden, ports: {out: [{name: key}]}}\n"+
		"- {kind: snippet, name: key, language: text, env: {KEY: {data: '{{ .KEY }}'}, V: {name: v, data: '{{ .word }}'}}, code: 'it is {{ .KEY }} and {{ .V }}'}\n", port))
	apptest.Write(t, "v.yaml", "- {name: v, data: {word: swordfish}}\n")
	s := serve(t, "--from-specs", "f.yaml", "--from-values", "v.yaml", "-e", "KEY=hunter2", "--debug-nodes", "web,key,nowhere")
	s.await("msg=ready nodes=3")
	s.await(`msg="--debug-nodes names unknown nodes" nodes=nowhere`)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer topsecret")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || string(body) != "it is hunter2 and swordfish" {
		t.Errorf("got %q, %v", body, err)
	}
	s.signals <- syscall.SIGTERM
	s.ended(0)
	log := s.text()
	for _, want := range []string{
		`msg="packet sent" node=web port=0 process=`, `msg="packet received" node=key port=0 `,
		`msg="packet sent" node=key port=0 `, `msg="packet answered" node=key port=0 `, `msg="packet answered" node=web port="" `,
		`payload="\"it is [redacted] and [redacted]\""`, `\"Authorization\":[redacted]`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("got no %s in\n%s", want, log)
		}
	}
	for _, never := range []string{"hunter2", "swordfish", "topsecret", "node=hidden"} {
		if strings.Contains(log, never) {
			t.Errorf("got %s in\n%s", never, log)
		}
	}
}
