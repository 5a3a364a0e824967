package websocket_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	websocketkind "github.com/uniflow-labs/uniflow/nodes/web/websocket"
)

// partDef sends its payload as a part of the answer.
var partDef = &node.Def{
	Kind: "test_part", Summary: "Sends a part of the answer.",
	In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
	Traits: node.Fixed(node.Traits{Is: node.SendsParts}),
	New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result {
				parts, ok := node.PartsOf(p.Context())
				if !ok {
					return node.Fail(errors.New("no parts"))
				}
				if err := parts.Part(ctx, pkt.Payload); err != nil {
					return node.Fail(err)
				}
				return node.None()
			})
		}), nil
	},
}

// sockets is a workflow with a WebSocket whose messages go to a snippet of CEL.
func sockets(fields, code, more string) string {
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: routes, port: in}]}}
- {kind: router, name: routes, routes: [{method: GET, path: "/rooms/:room", port: out}], ports: {out: [{name: chat, port: in}]}}
- kind: websocket
  name: chat
  %s
- {kind: snippet, name: reply, language: cel, code: %q}
%s`, fields, code, more)
}

const toReply = "ports: {out: [{name: reply, port: in}]}"

func dial(t testing.TB, f *flowtest.Flow, room string, header ...string) *websocket.Conn {
	t.Helper()
	c, resp, err := tryDial(t, f, room, header...)
	if err != nil {
		t.Fatalf("dial: %v, %v", err, resp)
	}
	return c
}

func tryDial(t testing.TB, f *flowtest.Flow, room string, header ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	h := http.Header{}
	for _, line := range header {
		name, v, _ := strings.Cut(line, ": ")
		h.Set(name, v)
	}
	c, resp, err := websocket.Dial(t.Context(), "ws://"+f.Address()+"/rooms/"+room, &websocket.DialOptions{HTTPHeader: h, HTTPClient: f.Client()})
	if err == nil {
		t.Cleanup(func() { c.CloseNow() })
	}
	return c, resp, err
}

func say(t testing.TB, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// hear returns the next message, or "closed CODE REASON".
func hear(t testing.TB, c *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, data, err := c.Read(ctx)
	var e websocket.CloseError
	if errors.As(err, &e) {
		return strings.TrimSpace(fmt.Sprintf("closed %d %s", e.Code, e.Reason))
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return string(data)
}

func wantHeard(t testing.TB, c *websocket.Conn, want string) {
	t.Helper()
	if got := hear(t, c); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWebsocketMessages(t *testing.T) {
	w := serve(t, sockets(toReply, `body == "silence" ? null : {"got": body, "room": params.room}`, ""))
	c := dial(t, w, "kitchen")
	say(t, c, `{"a":1}`)
	wantHeard(t, c, `{"got":{"a":1},"room":"kitchen"}`)
	for i := range 100 { // in order, though they are sent together
		say(t, c, fmt.Sprint(i))
	}
	for i := range 100 {
		wantHeard(t, c, fmt.Sprintf(`{"got":%d,"room":"kitchen"}`, i))
	}
	if err := c.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Error(err)
	}
}

func TestWebsocketForms(t *testing.T) {
	for _, c := range []struct {
		decode, code string
		kind         websocket.MessageType
		send, want   string
		binary       bool
	}{
		{"json", "body", websocket.MessageText, `"text"`, "text", false},
		{"json", "self", websocket.MessageText, `[1,2]`, "[1,2]", false}, // the message itself stands for its body
		{"json", "body", websocket.MessageBinary, `{"a":1}`, `{"a":1}`, false},
		{"text", "body", websocket.MessageText, `{"a":`, `{"a":`, false},
		{"raw", "body", websocket.MessageText, "x", "x", false},
		{"raw", "body", websocket.MessageBinary, "\xff\x00", "\xff\x00", true},
		{"text", "body", websocket.MessageText, "", "", false},
		{"text", `{"status": 3}`, websocket.MessageText, "", `{"status":3}`, false},
	} {
		w := serve(t, sockets("decode: "+c.decode+"\n  "+toReply, c.code, ""))
		conn := dial(t, w, "x")
		if err := conn.Write(t.Context(), c.kind, []byte(c.send)); err != nil {
			t.Fatal(err)
		}
		kind, data, err := conn.Read(t.Context())
		if err != nil || string(data) != c.want || (kind == websocket.MessageBinary) != c.binary {
			t.Errorf("%s %q: got %v %q, %v, want %q", c.decode, c.send, kind, data, err, c.want)
		}
	}
}

func TestWebsocketErrors(t *testing.T) {
	const failing = `body == 7 ? 1 / (body - 7) : body`
	t.Run("unlinked", func(t *testing.T) {
		w := serve(t, sockets(toReply, failing, ""))
		for send, want := range map[string]string{`7`: "closed 1011", `{"a":`: "closed 1007 not what this server reads", `""`: ""} {
			c := dial(t, w, "x")
			say(t, c, send)
			wantHeard(t, c, want)
		}
	})
	t.Run("linked", func(t *testing.T) {
		w := serve(t, sockets("ports: {out: [{name: reply, port: in}], error: [{name: sorry, port: in}]}", failing,
			"- {kind: snippet, name: sorry, language: cel, code: '\"sorry: \" + (has(self.data) ? string(data.body) : \"failed\")'}\n"))
		c := dial(t, w, "x")
		for send, want := range map[string]string{`7`: "sorry: failed", `{"a":`: `sorry: {"a":`, `8`: "8"} {
			say(t, c, send)
			wantHeard(t, c, want)
		}
	})
	t.Run("public", func(t *testing.T) {
		w := serve(t, sockets("ports: {out: [{name: text, port: in}]}", "self", "- {kind: snippet, name: text, language: text, code: not today, ports: {out: [{name: no, port: in}]}}\n- {kind: throw, name: no, public: true, status: 403}\n"))
		c := dial(t, w, "x")
		say(t, c, "1")
		wantHeard(t, c, "closed 1011 not today")
	})
}

func TestWebsocketRefused(t *testing.T) {
	w := serve(t, sockets("origins: ['*.example.com']\n  connections: 1\n  ports: {open: [{name: guard, port: in}], out: [{name: reply, port: in}]}", "body",
		`- {kind: snippet, name: guard, language: cel, code: 'params.room == "cellar" ? {"status": 401, "body": "who are you?"} : self'}
`))
	f := func(status int, body, room string, header ...string) {
		t.Helper()
		c, resp, err := tryDial(t, w, room, header...)
		if c != nil {
			c.CloseNow()
		}
		if err == nil || resp == nil {
			t.Fatalf("got no answer, or a connection: %v", err)
		}
		data, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != status || string(data) != body {
			t.Errorf("got %d %q, want %d %q", resp.StatusCode, data, status, body)
		}
	}
	f(401, "who are you?", "cellar")
	f(403, "pages of this origin may not connect", "x", "Origin: https://example.org")
	f(403, "pages of this origin may not connect", "x", "Origin: null")
	for _, origin := range []string{"http://" + w.Address(), "https://A.example.com", ""} {
		c := dial(t, w, "x", "Origin: "+origin)
		say(t, c, "1")
		wantHeard(t, c, "1")
		f(503, "there are too many connections", "x")
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		waitConnections(t, w, 0)
	}
	// RFC 9110 demands that the answer names the protocol.
	got := w.Request("GET", "/rooms/x", "")
	if got.Status != 426 || got.Body != "this is a WebSocket: ask for an upgrade over HTTP/1.1" || got.Header.Get("Upgrade") != "websocket" || got.Header.Get("Connection") != "Upgrade" {
		t.Errorf("got %v", got)
	}
	// What the library finds: an upgrade without a key.
	if got := w.Request("GET", "/rooms/x", "", "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13"); got.Status != 400 {
		t.Errorf("got %v", got)
	}
	waitConnections(t, w, 0)
}

// waitConnections waits until that many connections are open.
func waitConnections(t testing.TB, f *flowtest.Flow, want float64) {
	t.Helper()
	waitFigure(t, f, "websocket_connections", want)
}

func waitFigure(t testing.TB, f *flowtest.Flow, name string, want float64) {
	t.Helper()
	for got := f.Figure(name); got != want; got = f.Figure(name) {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s: got %v, want %v", name, got, want)
		}
	}
}

// Only the request of a listener can become a WebSocket.
func TestWebsocketBehindOtherTriggers(t *testing.T) {
	w := serve(t, sockets(toReply, "body", "- {kind: snippet, name: odd, language: cel, code: '{\"method\": \"GET\"}', ports: {out: [{name: chat, port: in}]}}\n"))
	_, _, err := w.Engine().Run(context.Background(), "odd", flowtest.Parse(t, "null"))
	if err == nil || !strings.Contains(err.Error(), "nothing else can become a WebSocket") {
		t.Errorf("got %v", err)
	}
}

func TestWebsocketSend(t *testing.T) {
	w := serve(t, sockets("topics: [all, 'room/${self.params.room}']\n  ports: {out: [{name: reply, port: in}]}", `body == "id" ? {"body": connection} : body == "quiet" ? {"topic": "room/b", "body": "psst"} : self`,
		"- {kind: snippet, name: tell, language: cel, code: self, ports: {out: [{name: chat, port: send}]}}\n"))
	a, b := dial(t, w, "a"), dial(t, w, "b")
	say(t, a, `"id"`)
	id := hear(t, a)
	waitConnections(t, w, 2)
	send := func(packet, want string) {
		t.Helper()
		_, _, err := w.Engine().Run(context.Background(), "tell", flowtest.Parse(t, packet))
		got := ""
		if err != nil {
			got = node.Message(err)
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", packet, got, want)
		}
	}
	send(`{"topic":"all","body":{"n":1}}`, "")
	wantHeard(t, a, `{"n":1}`)
	wantHeard(t, b, `{"n":1}`)
	send(`{"topic":"room/b","body":"b"}`, "")
	wantHeard(t, b, "b")
	send(fmt.Sprintf(`{"to":%q,"body":"a"}`, id), "")
	wantHeard(t, a, "a")
	send(`{"topic":"nobody","body":1}`, "")
	send(`{"to":"gone","body":1}`, "has ended")
	for _, bad := range []string{`{"to":"x"}`, `{"body":1}`, `1`, `{"to":"x","topic":"y","body":1}`} {
		send(bad, "want a map of body")
	}
	a.CloseNow()
	waitConnections(t, w, 1)
	send(fmt.Sprintf(`{"to":%q,"body":"a"}`, id), "has ended")
}

// The port close gets how a connection has ended.
func TestWebsocketClose(t *testing.T) {
	w := serve(t, sockets("topics: [all]\n  max_message: 1KiB\n  ports: {out: [{name: reply, port: in}], close: [{name: told, port: in}]}", "body",
		"- {kind: snippet, name: told, language: cel, code: '{\"topic\": \"all\", \"body\": params.room + \" \" + string(code) + \" \" + reason}', ports: {out: [{name: chat, port: send}]}}\n"))
	watch := dial(t, w, "watch")
	say(t, watch, "1")
	hear(t, watch)
	a := dial(t, w, "a")
	if err := a.Close(4000, "done"); err != nil {
		t.Error(err)
	}
	wantHeard(t, watch, "a 4000 done")
	dial(t, w, "b").CloseNow()
	wantHeard(t, watch, "b 1006 ")
	c := dial(t, w, "c")
	say(t, c, `"`+strings.Repeat("x", 1100)+`"`)
	wantHeard(t, c, "closed 1009 read limited at 1025 bytes")
	wantHeard(t, watch, "c 1009 ")
}

// A part of an answer is a message, and its end is the last one.
func TestWebsocketParts(t *testing.T) {
	w := serve(t, sockets("ports: {out: [{name: list, port: in}]}", "self", `
- {kind: snippet, name: list, language: cel, code: body, ports: {out: [{name: each, port: in}]}}
- {kind: for, name: each, ports: {"out[0]": [{name: part, port: in}], "out[1]": [{name: last, port: in}]}}
- {kind: test_part, name: part}
- {kind: snippet, name: last, language: text, code: last}
`))
	c := dial(t, w, "x")
	say(t, c, `[1,"two",{"n":3}]`)
	for _, want := range []string{"1", "two", `{"n":3}`, "last"} {
		wantHeard(t, c, want)
	}
}

// A reload keeps the connections; new messages go to the new generation.
func TestWebsocketReload(t *testing.T) {
	doc := func(n int) string { return sockets(toReply, fmt.Sprintf("{'generation': %d, 'body': body}", n), "") }
	w := serve(t, doc(0))
	c := dial(t, w, "x")
	for n := range 20 {
		if n > 0 {
			w.Load(doc(n))
		}
		say(t, c, `"m"`)
		wantHeard(t, c, fmt.Sprintf(`{"generation":%d,"body":"m"}`, n))
	}
	// Messages all the time, while generations come and go: each has an answer, in order.
	var client sync.WaitGroup
	client.Go(func() {
		for i := range 2000 {
			say(t, c, fmt.Sprint(i))
			if got := hear(t, c); !strings.HasSuffix(got, fmt.Sprintf(`"body":%d}`, i)) {
				t.Errorf("message %d: got %s", i, got)
				return
			}
		}
	})
	for n := range 30 {
		w.Load(doc(n))
	}
	client.Wait()
	// Removed: the close code asks the client to connect again.
	w.Load("- {kind: listener, name: web, host: 127.0.0.1, port: 0}\n")
	wantHeard(t, c, "closed 1012")
}

func TestWebsocketShutdown(t *testing.T) {
	w := serve(t, sockets(toReply, "body", ""))
	c := dial(t, w, "x")
	say(t, c, "1")
	wantHeard(t, c, "1")
	var shutdown sync.WaitGroup
	shutdown.Go(func() {
		if err := w.Engine().Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	wantHeard(t, c, "closed 1001")
	shutdown.Wait()
}

// A shutdown does not wait for clients that do not answer.
func TestWebsocketShutdownOfTheDeaf(t *testing.T) {
	w := serve(t, sockets(toReply, "body", ""))
	for range 20 {
		dial(t, w, "x")
	}
	waitConnections(t, w, 20)
	start := time.Now()
	if err := w.Engine().Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

// rawSocket makes a connection whose frames the test writes itself.
func rawSocket(t testing.TB, f *flowtest.Flow, room string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", f.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET /rooms/%s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", room)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("got %v, %v", resp, err)
	}
	return c, r
}

// frame is a masked frame whose key is zero.
func frame(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

func readFrame(r *bufio.Reader) (first byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := int(head[1])
	if n == 126 {
		long := make([]byte, 2)
		if _, err := io.ReadFull(r, long); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint16(long))
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

// What breaks the protocol closes that connection, with the code of RFC 6455, and
// nothing else.
func TestWebsocketHostileFrames(t *testing.T) {
	w := serve(t, sockets("decode: text\n  max_message: 64KiB\n  "+toReply, "body", ""))
	good := dial(t, w, "x")
	const text, binaryFrame, cont, closing, ping = 1, 2, 0, 8, 9
	fin := byte(0x80)
	for name, c := range map[string]struct {
		frames [][]byte
		code   int
	}{
		"fragmented ping":         {[][]byte{frame(ping, "x")}, 1002},
		"fragmented close":        {[][]byte{frame(closing, "\x03\xe8")}, 1002},
		"long ping":               {[][]byte{frame(fin|ping, strings.Repeat("x", 126))}, 1002},
		"reserved bits":           {[][]byte{frame(fin|text|0x40, "x")}, 1002},
		"reserved opcode":         {[][]byte{frame(fin|3, "x")}, 1002},
		"continuation of nothing": {[][]byte{frame(fin|cont, "x")}, 1002},
		"message within another":  {[][]byte{frame(text, "x"), frame(fin|text, "x")}, 1002},
		"unmasked":                {[][]byte{{fin | text, 1, 'x'}}, 1002},
		"bad UTF-8":               {[][]byte{frame(fin|text, "\xff")}, 1007},
		"bad UTF-8 in binary":     {[][]byte{frame(fin|binaryFrame, "\xff")}, 1007},
		"UTF-8 cut in two":        {[][]byte{frame(text, "\xc3"), frame(fin|cont, "x")}, 1007},
		"too long":                {[][]byte{frame(fin|text, strings.Repeat("x", 64<<10+1))}, 1009},
		"too long in fragments":   {[][]byte{frame(text, strings.Repeat("x", 64<<10)), frame(fin|cont, "xy")}, 1009},
		"endless fragments":       {slicesRepeat(frame(text, "x"), frame(cont, strings.Repeat("x", 1000)), 100), 1009},
		"negative length":         {[][]byte{{fin | text, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, 1002},
		"close of one byte":       {[][]byte{frame(fin|closing, "x")}, 1002},
		"close with code 1005":    {[][]byte{frame(fin|closing, "\x03\xed")}, 1002},
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := rawSocket(t, w, "x")
			for _, f := range c.frames {
				conn.Write(f) // fails when the server has closed the connection
			}
			code := 0
			for {
				first, payload, err := readFrame(r)
				if err != nil {
					break
				}
				if first == fin|closing && len(payload) >= 2 {
					code = int(binary.BigEndian.Uint16(payload))
					break
				}
			}
			conn.Close()
			if code != c.code {
				t.Errorf("got code %d, want %d", code, c.code)
			}
		})
	}
	t.Run("good ones", func(t *testing.T) {
		conn, r := rawSocket(t, w, "x")
		conn.Write(bytes.Join([][]byte{frame(text, "a"), frame(fin|ping, "p"), frame(cont, ""), frame(fin|cont, "b")}, nil))
		if first, payload, err := readFrame(r); first != fin|10 || string(payload) != "p" {
			t.Errorf("got %x %q, %v, want a pong", first, payload, err)
		}
		if first, payload, err := readFrame(r); first != fin|text || string(payload) != "ab" {
			t.Errorf("got %x %q, %v", first, payload, err)
		}
		conn.Write(frame(fin|closing, "\x0f\xa0bye"))
		if first, payload, err := readFrame(r); first != fin|closing || string(payload) != "\x0f\xa0bye" {
			t.Errorf("got %x %q, %v", first, payload, err)
		}
	})
	say(t, good, "still here")
	wantHeard(t, good, "still here")
	waitConnections(t, w, 1)
}

// FuzzWebsocketFrames sends any bytes after the handshake: the connection ends, and the server
// goes on.
func FuzzWebsocketFrames(f *testing.F) {
	f.Add(frame(0x81, "text"))
	f.Add(append(frame(0x01, "te"), append(frame(0x89, "ping"), frame(0x80, "xt")...)...))
	f.Add(frame(0x88, "\x03\xe8bye"))
	f.Add(frame(0x82, strings.Repeat("x", 300)))
	f.Add([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 'x'})
	w := serve(f, sockets("decode: text\n  max_message: 4KiB\n  "+toReply, "body", ""))
	good, address := dial(f, w, "x"), w.Address()
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		head := "GET /rooms/x HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
		conn.Write(append([]byte(head), sent...)) // fails if the server has closed the connection
		conn.(*net.TCPConn).CloseWrite()
		r := bufio.NewReader(conn)
		for {
			if _, _, err := readFrame(r); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Fatal("the connection does not end")
				}
				break
			}
		}
		if err := good.Write(context.Background(), websocket.MessageText, []byte("here")); err != nil {
			t.Fatal(err)
		}
		if _, got, err := good.Read(context.Background()); err != nil || string(got) != "here" {
			t.Fatalf("got %q, %v", got, err)
		}
		if log := w.Log(); strings.Contains(log, "panic") {
			t.Fatalf("log: got %s", log)
		}
	})
}

func slicesRepeat(first, more []byte, n int) [][]byte {
	all := [][]byte{first}
	for range n {
		all = append(all, more)
	}
	return all
}

// A client that does not answer pings has gone, also if its connection seems to be there.
func TestWebsocketHalfOpen(t *testing.T) {
	w := serve(t, sockets("ping: 50ms\n  "+toReply, "body", ""))
	silent, r := rawSocket(t, w, "x")
	if err := silent.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); errors.Is(err, os.ErrDeadlineExceeded) { // it answers nothing
		t.Error("the client that does not answer is still there")
	}
	waitConnections(t, w, 0)

	w = serve(t, sockets("ping: 1s\n  "+toReply, "body", ""))
	asked := make(chan struct{}, 10)
	c, _, err := websocket.Dial(t.Context(), "ws://"+w.Address()+"/rooms/x", &websocket.DialOptions{HTTPClient: w.Client(), OnPingReceived: func(context.Context, []byte) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return true
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	alive := c.CloseRead(t.Context())
	for range 2 { // the second comes after the answer to the first
		select {
		case <-asked:
		case <-alive.Done():
			t.Fatal("the client that answers was closed")
		}
	}
}

// A client that does not read is closed when it is too far behind; others get everything.
func TestWebsocketSlowReader(t *testing.T) {
	w := serve(t, sockets("topics: [all]\n  "+toReply, "body", "- {kind: snippet, name: tell, language: cel, code: '{\"topic\": \"all\", \"body\": self}', ports: {out: [{name: chat, port: send}]}}\n"))
	rawSocket(t, w, "x")
	good := dial(t, w, "x")
	good.SetReadLimit(-1)
	waitConnections(t, w, 2)
	payload := flowtest.Parse(t, `"`+strings.Repeat("x", 256<<10)+`"`)
	var reader sync.WaitGroup
	const n = 200
	taken := make(chan struct{}, n)
	reader.Go(func() {
		for range n {
			if _, _, err := good.Read(t.Context()); err != nil {
				t.Errorf("the client that reads: %v", err)
				return
			}
			taken <- struct{}{}
		}
	})
	for range n {
		if _, _, err := w.Engine().Run(context.Background(), "tell", payload); err != nil {
			t.Fatal(err)
		}
		<-taken
	}
	reader.Wait()
	waitConnections(t, w, 1)
	waitFigure(t, w, "websocket_behind_total", 1)
}

// A client that floods is not read further than its answers go.
func TestWebsocketFlood(t *testing.T) {
	w := serve(t, sockets("decode: text\n  "+toReply, "body", ""))
	conn, r := rawSocket(t, w, "x")
	var writer sync.WaitGroup
	const n = 20000
	message := frame(0x81, strings.Repeat("x", 100))
	writer.Go(func() {
		for range n {
			if _, err := conn.Write(message); err != nil {
				return
			}
		}
	})
	for i := range n {
		if _, _, err := readFrame(r); err != nil {
			t.Fatalf("after %d answers: %v", i, err)
		}
	}
	writer.Wait()
}

// A client that leaves ends the process of its message; one that has closed its
// connection has a moment for it.
func TestWebsocketCancelled(t *testing.T) {
	w := serve(t, sockets("ports: {out: [{name: wait, port: in}]}", "body", "- {kind: sleep, name: wait, interval: 1h}\n"))
	c := dial(t, w, "x")
	say(t, c, "1")
	waitFigure(t, w, "websocket_received_total", 1)
	c.CloseNow()
	waitConnections(t, w, 0)
}

func TestWebsocketRemovedWhileItRuns(t *testing.T) {
	w := serve(t, sockets("ports: {out: [{name: wait, port: in}]}", "body", "- {kind: sleep, name: wait, interval: 100ms, ports: {out: [{name: reply, port: in}]}}\n"))
	c := dial(t, w, "x")
	say(t, c, `"late"`)
	waitFigure(t, w, "websocket_received_total", 1)
	w.Load("- {kind: listener, name: web, host: 127.0.0.1, port: 0}\n")
	wantHeard(t, c, "late")
	wantHeard(t, c, "closed 1012")
}

// TestWebsocketMemory has a client that sends ahead, and one whose message takes a hundred
// times as much when it is decoded: past the limit, each is closed with 1013, and what it held
// is given back.
func TestWebsocketMemory(t *testing.T) {
	var socket node.Node
	defs := kinds()
	for _, def := range defs {
		if def.Kind == "websocket" {
			make := def.New
			def.New = func(init *node.Init) (n node.Node, err error) {
				socket, err = make(init)
				return socket, err
			}
		}
	}
	w := flowtest.New(t, defs...)
	w.Serve(sockets("ports: {out: [{name: waits, port: in}]}", "self", "- {kind: sleep, name: waits, interval: 1h}"))
	zeros := func(bytes int) string { return "[" + strings.Repeat("0,", bytes/2-1) + "0]" }
	f := func(what string, room int64, messages ...string) {
		t.Helper()
		before := websocketkind.HoldBytes(socket, websocketkind.MaxHeldBytes-room)
		c := dial(t, w, "kitchen")
		for _, m := range messages {
			say(t, c, m)
		}
		if got := hear(t, c); got != "closed 1013 too many long messages" {
			t.Errorf("%s: got %q", what, got)
		}
		for deadline := time.Now().Add(10 * time.Second); websocketkind.HoldBytes(socket, 0) != before; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d bytes are held, want %d", what, websocketkind.HoldBytes(socket, 0), before)
			}
		}
		websocketkind.HoldBytes(socket, room-websocketkind.MaxHeldBytes)
	}
	f("small messages that wait", 100<<10, append([]string{"0"}, slices.Repeat([]string{zeros(15 << 10)}, 8)...)...)
	f("a message of 15 KiB, decoded", 100<<10, zeros(15<<10))
	f("a message of 1 MiB, decoded", 8<<20, zeros(1<<20-8))
}
