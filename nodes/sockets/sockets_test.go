package sockets_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// flow returns a flow that uses the clock of the machine, as sockets are outside of it.
func flow(t *testing.T) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	return f
}

// free returns an address that nothing listens at.
func free(t *testing.T, network string) string {
	t.Helper()
	if network == "unix" {
		return filepath.Join(t.TempDir(), "s")
	}
	return freeport.Addr(t)
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// bodies returns the bodies that a probe has got, as JSON.
func bodies(p *flowtest.Probe) string {
	var texts []string
	for _, m := range p.Payloads() {
		body, _ := m.Get("body")
		texts = append(texts, body.String())
	}
	return strings.Join(texts, " ")
}

// TestRoundTrip sends messages from a sink to a source, over each sort of socket.
func TestRoundTrip(t *testing.T) {
	cert, key := flowtest.Certificate(t, 1)
	for _, c := range []struct{ network, frame, listens, connects string }{
		{"tcp", "lines", "", ""},
		{"tcp", "length", "", ""},
		{"unix", "lines", "", ""},
		{"unix", "length", "", ""},
		{"udp", "", "", ""},
		{"tls", "lines", fmt.Sprintf(", tls: {cert: %q, key: %q}", cert, key), fmt.Sprintf(", tls: {ca: %q}", cert)},
	} {
		t.Run(c.network+"/"+c.frame, func(t *testing.T) {
			f := flow(t)
			address := free(t, c.network)
			frame := ""
			if c.frame != "" {
				frame = ", frame: " + c.frame
			}
			source := fmt.Sprintf("- {kind: socket_source, name: from, network: %s, address: %q, order: total%s%s, ports: {out: [{name: got}]}}\n", c.network, address, frame, c.listens)
			sink := fmt.Sprintf("- {kind: socket_sink, name: to, network: %s, address: %q%s%s}\n", c.network, address, frame, c.connects)
			f.Load(source)
			f.Load(source + sink)
			for _, payload := range []string{`{"n": 1}`, `"a\nb"`, `[{"body": 3}, null]`} {
				if got := f.SendJSON("to", payload); got != "none" {
					t.Errorf("%s: got %s, want none", payload, got)
				}
			}
			f.Probe("got").Wait(4)
			if got, want := bodies(f.Probe("got")), `{"n":1} a`+"\n"+`b 3 null`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	f := flow(t)
	address := free(t, "tcp")
	f.Load(fmt.Sprintf("- {kind: socket_source, name: from, address: %q, decode: text, order: key, reply: true, retry: {threshold: 0}, ports: {out: [{name: got}], error: [{name: dead}]}}", address))
	f.Probe("got").Do(func(_ node.Process, pkt node.Packet) node.Result {
		body, _ := pkt.Payload.Get("body")
		switch body.String() {
		case "none":
			return node.None()
		case "fail":
			return node.Fail(&node.Error{Err: fmt.Errorf("no such order"), Public: true})
		case "map":
			return node.Answer(value.Map(value.Field{Name: "n", Value: value.Int(1)}))
		}
		return node.Answer(value.String(strings.ToUpper(body.String())))
	})
	conn := dial(t, "tcp", address)
	f.Probe("dead").Do(flowtest.None)
	fmt.Fprintf(conn, "one\nnone\r\nmap\ntwo")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if want := "ONE\n{\"n\":1}\nTWO\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	conn = dial(t, "tcp", address)
	fmt.Fprintln(conn, "fail")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != `{"error":"no such order"}`+"\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestReloadKeepsConnections reloads with equal settings, in the middle of a line.
func TestReloadKeepsConnections(t *testing.T) {
	f := flow(t)
	address := free(t, "tcp")
	document := fmt.Sprintf("- {kind: socket_source, name: from, address: %q, decode: text, order: key, reply: true, ports: {out: [{name: got}]}}\n", address)
	f.Load(document)
	conn := dial(t, "tcp", address)
	in := bufio.NewReader(conn)
	f.Probe("got").Do(func(_ node.Process, pkt node.Packet) node.Result {
		body, _ := pkt.Payload.Get("body")
		return node.Answer(body)
	})
	for i := range 20 {
		fmt.Fprintf(conn, "line ")
		f.Load(document + fmt.Sprintf("- {kind: nop, name: n%d}\n", i))
		fmt.Fprintf(conn, "%d\n", i)
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
	}
}

// TestLimits closes connections that are too many, and those with a message that is too
// long or torn; others go on.
func TestLimits(t *testing.T) {
	f := flow(t)
	address := free(t, "tcp")
	f.Load(fmt.Sprintf("- {kind: socket_source, name: from, address: %q, decode: text, limits: {connections: 2, max_message: 10B}, ports: {out: [{name: got}]}}", address))
	good, long := dial(t, "tcp", address), dial(t, "tcp", address)
	fmt.Fprintln(good, "first")
	fmt.Fprintln(long, "second")
	f.Probe("got").Wait(2)
	third := dial(t, "tcp", address)
	if n, err := third.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a connection too many: got %d bytes, %v", n, err)
	}
	fmt.Fprintln(long, "exactly 10\r\nhas eleven!")
	if n, err := long.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a line too long: got %d bytes, %v", n, err)
	}
	fmt.Fprintln(good, "last")
	f.Probe("got").Wait(4)
	waitFor(t, "the reason in the log", func() bool { return strings.Contains(f.Log(), "longer than max_message") })
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, late := time.NewTicker(2*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestSlow fills a source whose processes do not answer: TCP waits, UDP drops.
func TestSlow(t *testing.T) {
	f := flow(t)
	address := free(t, "tcp")
	gate := make(chan struct{})
	f.Probe("got").Do(f.Until(gate, flowtest.None))
	f.Load(fmt.Sprintf("- {kind: socket_source, name: from, address: %q, decode: text, max_in_flight: 4, ports: {out: [{name: got}]}}", address))
	conn := dial(t, "tcp", address)
	for i := range 100 {
		fmt.Fprintf(conn, "%d\n", i)
	}
	f.Probe("got").Wait(4)
	if got := f.Probe("got").Len(); got != 4 {
		t.Errorf("%d messages in flight, want 4", got)
	}
	close(gate)
	f.Probe("got").Wait(100)
}

func TestConnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := flow(t)
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	f.Load(fmt.Sprintf("- {kind: socket_source, name: from, mode: connect, address: %q, decode: text, ports: {out: [{name: got}]}}", l.Addr()))
	for i := range 3 { // and again
		conn := <-accepted
		fmt.Fprintf(conn, "%d\n", i)
		f.Probe("got").Wait(i + 1)
		conn.Close()
	}
	f.Close()
	l.Close()
	for conn := range accepted {
		conn.Close()
	}
}

// TestSinkReconnects begins without a listener: what was refused is an error, and the
// rest arrives.
func TestSinkReconnects(t *testing.T) {
	address := free(t, "tcp")
	f := flow(t)
	sink := fmt.Sprintf("- {kind: socket_sink, name: to, address: %q, timeout: 100ms}\n", address)
	dials := fmt.Sprintf("- {kind: socket_source, name: dials, mode: connect, address: %q, ports: {out: []}}\n", address)
	f.Load(sink + dials) // nothing listens: it goes on in the background
	if got := f.Engine().Ready(); len(got) != 2 {
		t.Errorf("without a listener: not ready are %v, want both", got)
	}
	if got := f.SendJSON("to", "1"); !strings.Contains(got, "not connected") {
		t.Errorf("without a listener: got %s", got)
	}
	// Each logs once that its first attempt has failed, with the address.
	if got := regexp.MustCompile(`connecting failed.*`+regexp.QuoteMeta(address)+`.*attempts=1 `).FindAllString(f.Log(), -1); len(got) != 2 {
		t.Errorf("without a listener: the log has %q in\n%s", got, f.Log())
	}
	source := fmt.Sprintf("- {kind: socket_source, name: from, address: %q, ports: {out: [{name: got}]}}\n", address)
	f.Load(source + sink)
	for f.SendJSON("to", "2") != "none" {
	}
	f.Probe("got").Wait(1)
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ fields, want string }{
		{"kind: socket_source, address: here", `"here" is not a host and a port`},
		{"kind: socket_sink, address: ':80'", `":80" is not a host and a port`},
		{"kind: socket_source, address: ':80', network: tls", "needs a certificate"},
		{"kind: socket_source, address: ':80', tls: {ca: x}", "has no TLS"},
		{"kind: socket_source, address: ':80', network: udp, frame: lines", "each datagram is a message"},
		{"kind: socket_source, address: '127.0.0.1:80', network: udp, mode: connect", "by who listens"},
		{"kind: socket_source, address: ':80', reply: true", "order of the messages"},
		{"kind: socket_sink, network: tls, address: 'a:80', tls: {cert: x}", "needs both cert and key"},
		{"kind: socket_source, network: unix, address: ''", "is empty"},
		{"kind: socket_source, address: '256.0.0.1:80'", "256.0.0.1"},
		{"kind: socket_sink, network: tls, address: '127.0.0.1:80', tls: {ca: /no/such/file}", "tls.ca"},
	} {
		f := flow(t)
		list, err := f.Apply("- {" + c.fields + ", name: n}")
		if text := fmt.Sprint(list, err); !strings.Contains(text, c.want) {
			t.Errorf("%s: got %s, want %s", c.fields, text, c.want)
		}
	}
}
