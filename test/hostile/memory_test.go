//go:build linux && !race

package hostile

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// Why a kind needs no attack of its own: what it holds is counted by others.
const (
	inProcess = "holds packets of a process, which its budget bounds; what the trigger has counted stays counted until that ends"
	inSource  = "a source: what it holds is counted by node/stream, as for file_source"
	inSink    = "a sink: what it writes is held by processes, which wait for it"
	inSession = "what it keeps is in the session"
	ownLimit  = "has a field that bounds what it keeps"
	ofService = "reads answers of a service that the document names, each with a limit of its own, within a process"
	byHTTP    = "reads answers as http does"
	inJournal = "what waits is in the journal, and what runs is in processes"
)

// A hold is how a kind is made to hold as much as it can, or why that is not needed.
type hold struct {
	attack func(t *testing.T, s *target)
	more   string // documents in addition to front; ADDRESS and FOLDER are replaced
	reason string
}

// holds has a row for each kind.
var holds = map[string]hold{
	"listener": {attack: holdBodies("/held"), more: "- {kind: sleep, name: held, interval: 20s}\n"},
	"fork":     {attack: holdBodies("/held"), more: "- {kind: fork, name: held, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 20s}\n"},
	"collect":  {attack: holdBodies("/held"), more: "- {kind: collect, name: held, count: 1000000, bytes: 1TiB, linger: 20s, ports: {out: [{name: end}]}}\n- {kind: nop, name: end}\n"},
	"subscribe": {attack: holdSubscriptions, more: `
- {kind: if, name: held, when: self.method == "GET", ports: {'out[0]': [{name: live}], 'out[1]': [{name: tell}]}}
- {kind: subscribe, name: live, topic: 't${self.query.topic}', ports: {out: [{name: part}]}}
- {kind: emit, name: part}
- {kind: publish, name: tell, topic: 't${self.query.topic}'}
`},
	"websocket": {attack: holdMessages, more: "- {kind: websocket, name: held, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 20s}\n"},
	"socket_source": {attack: holdLines, more: `
- {kind: socket_source, name: lines, address: 'ADDRESS', ports: {out: [{name: held}]}}
- {kind: sleep, name: held, interval: 20s}
`},
	"file_source": {attack: holdFile, more: `
- {kind: file_source, name: file, paths: ['FOLDER/large.ndjson'], max_in_flight: 1000, ports: {out: [{name: held}]}}
- {kind: sleep, name: held, interval: 20s}
`},

	"mcp": {attack: holdSessions, more: `
- kind: mcp
  name: held
  sessions: {most: 100000}
  calls: 100000
  tools: [{name: wait, description: Waits., input: {properties: {x: {}}}}]
  ports: {out: [{name: pause}]}
- {kind: sleep, name: pause, interval: 20s}
`},
	"chat": {attack: holdChats, more: `
- {kind: chat, name: held, path: /held, secret: [0123456789abcdef], memory: 1TiB, max_message: 1MiB, ports: {out: [{name: pause}]}}
- {kind: sleep, name: pause, interval: 20s}
`},
	"telegram": {attack: holdUpdates, more: `
- {kind: telegram, name: held, token: '123456:AAabc-def_ghi', webhook_secret: secret, api: 'http://127.0.0.1:1', ports: {out: [{name: pause}]}}
- {kind: sleep, name: pause, interval: 20s}
`},
	"ask": {attack: holdAnswers, more: `
- {kind: if, name: held, when: self.method == "GET", ports: {'out[0]': [{name: first}], 'out[1]': [{name: first, port: reply}]}}
- {kind: ask, name: first, key: self.query.user, timeout: 1h, ports: {out: [{name: second}]}}
- {kind: ask, name: second, key: self.input.query.user, timeout: 1h}
`},
	"cache": {attack: holdKept, more: `
- {kind: cache, name: held, key: self.query.key, bytes: 1TiB, ports: {out: [{name: body}]}}
- {kind: snippet, name: body, language: cel, code: 'self.body'}
`},
	"session": {attack: holdKept, more: `
- {kind: session, name: held, key: self.query.key, max: 1GiB, store: {bytes: 1TiB}, ports: {out: [{name: keep}]}}
- {kind: remember, name: keep, set: {body: '${self.body}'}, ports: {out: [{name: ok}]}}
- {kind: snippet, name: ok, language: text, code: ok}
`},
	"batch": {attack: holdKept, more: `
- {kind: batch, name: held, url: 'http://127.0.0.1:1', bytes: 64MiB, full: reject}
`},

	"window": {attack: holdBodies("/held"), more: "- {kind: window, name: held, size: 1h, time: 'timestamp(\"2026-01-01T00:00:00Z\")', max: 1000000, idle: 1h, ports: {out: [{name: end}], late: [{name: end}]}}\n- {kind: nop, name: end}\n"},
	"http":   {reason: "attacked by receivers"}, "proxy": {reason: "bodies pass through it"}, "static": {reason: "sends files in pieces"}, "page": {reason: byHTTP}, "llm": {reason: ofService}, "mcp_call": {reason: ofService},
	"auth": {reason: byHTTP}, "login": {reason: byHTTP + "; what it remembers of clients is attacked by apis"}, "discord": {reason: "as telegram"}, "slack": {reason: "as telegram"},
	"sse_source": {reason: inSource}, "kafka_source": {reason: inSource}, "nats_source": {reason: inSource}, "s3_source": {reason: inSource}, "sql_source": {reason: inSource}, "postgres_cdc": {reason: inSource}, "postgres_listen": {reason: inSource}, "websocket_client": {reason: inSource}, "stdin": {reason: inSource}, "watch": {reason: inSource}, "generate": {reason: inSource},
	"file_sink": {reason: inSink}, "kafka_sink": {reason: inSink}, "nats_sink": {reason: inSink}, "s3_sink": {reason: inSink}, "s3": {reason: "objects are counted, and max_body bounds each"}, "socket_sink": {reason: inSink}, "sql_sink": {reason: inSink}, "stdout": {reason: inSink}, "trail_sink": {reason: inSink}, "trail_append": {reason: inSink}, "nats_kv": {reason: inSink}, "nats_request": {reason: inSink}, "log": {reason: inSink},
	"dedupe": {reason: "keeps hashes of keys, at most capacity"}, "limit": {reason: "keeps hashes of 131,072 keys at most, 14 MB"}, "remember": {reason: inSession}, "recall": {reason: inSession}, "form": {reason: "as ask"}, "trail_query": {reason: ownLimit},
	"join": {reason: "as window"}, "debounce": {reason: "as window"}, "breaker": {reason: "parks packets of processes"},
	"redis": {reason: "max_answer bounds an answer"}, "redis_source": {reason: inSource}, "redis_sink": {reason: inSink}, "amqp_source": {reason: inSource}, "amqp_sink": {reason: inSink}, "mqtt_source": {reason: inSource}, "mqtt_sink": {reason: inSink},
	"grpc": {reason: "message_bytes bounds a message"}, "grpc_call": {reason: ofService}, "mail": {reason: inProcess}, "wasm": {reason: "memory bounds each instance"}, "exec": {reason: "max_line bounds a line, and in_flight their number"}, "python": {reason: "as exec"}, "plugin": {reason: "its kinds are exec and wasm"},
	"queue": {reason: inJournal}, "enqueue": {reason: inJournal}, "signal": {reason: inJournal}, "wait": {reason: inJournal},
}

// inProcesses are the kinds that hold nothing but packets of a process.
var inProcesses = []string{
	"assert", "block", "decode", "emit", "encode", "for", "if", "merge", "nop", "pipe", "publish", "reduce", "retry", "router", "schedule", "sleep", "snippet", "split", "sql", "step", "switch", "template", "test", "throw", "try", "validate",
}

// memory has each kind hold as much as it can, under a limit of 512 MiB: the program goes on,
// answers others, and has its memory back in the end.
func memory(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), program, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		h, ok := holds[name]
		if listed++; !ok && !slices.Contains(inProcesses, name) || ok && (h.attack == nil) != (h.reason != "") {
			t.Errorf("kind %s has no row", name)
		}
	}
	if listed != len(holds)+len(inProcesses) {
		t.Errorf("%d kinds, %d rows, and %d that hold nothing", listed, len(holds), len(inProcesses))
	}
	for _, kind := range slices.Sorted(maps.Keys(holds)) {
		h := holds[kind]
		if h.attack == nil {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			address, folder := freeport.Addr(t), t.TempDir()
			large := "[" + strings.TrimSuffix(strings.Repeat("0,", 250_000), ",") + "]\n"
			if kind == "file_source" {
				if err := os.WriteFile(filepath.Join(folder, "large.ndjson"), []byte(strings.Repeat(large, 200)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			document := strings.Replace(front, "LARGE", "x", 1) + strings.NewReplacer("ADDRESS", address, "FOLDER", folder).Replace(h.more)
			document = strings.Replace(document, "  ports:\n    out[0]:", "    - {method: '*', path: /held, port: 'out[3]'}\n    - {method: '*', path: /held/*, port: 'out[3]'}\n  ports:\n    out[3]: [{name: held, port: in}]\n    out[0]:", 1)
			document = strings.Replace(document, ", request_timeout: 10s", "", 1)
			s := serve(t, 512*mib, document)
			if kind == "socket_source" {
				s.addr, address = address, s.addr
				h.attack(t, s)
				s.addr = address
			} else {
				h.attack(t, s)
			}
			s.alive()
			t.Logf("peak %d MiB resident", s.status("VmHWM")/mib)
		})
	}
}

// holdBodies sends small requests that become large.
func holdBodies(path string) func(*testing.T, *target) {
	return func(t *testing.T, s *target) {
		body := packed(t, []byte("["+strings.TrimSuffix(strings.Repeat("0,", 2_000_000), ",")+"]"))
		header := map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}
		var mu sync.Mutex
		got := make(map[int]int)
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				status, _, _ := s.ask(4*time.Second, http.MethodPost, path, header, body) // it may last longer
				mu.Lock()
				defer mu.Unlock()
				got[status]++
			})
		}
		all.Wait()
		if t.Logf("got %v", got); got[http.StatusServiceUnavailable] == 0 {
			t.Error("none was refused")
		}
	}
}

// holdSubscriptions has many readers that do not read, each of other payloads.
func holdSubscriptions(t *testing.T, s *target) {
	const readers = 120
	for i := range readers {
		conn := s.dial()
		fmt.Fprintf(conn, "GET /held?topic=%d HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", i, s.addr)
	}
	payload := []byte(`"` + strings.Repeat("x", mib) + `"`)
	header := map[string]string{"Content-Type": "application/json"}
	for range 8 {
		for i := range readers {
			_, _, _ = s.ask(10*time.Second, http.MethodPost, fmt.Sprintf("/held?topic=%d", i), header, payload) // it may be refused before it is read
		}
	}
}

// holdMessages sends messages over many connections, whose processes last.
func holdMessages(t *testing.T, s *target) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	message := []byte("[" + strings.TrimSuffix(strings.Repeat("0,", 400_000), ",") + "]")
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			c, _, err := websocket.Dial(ctx, "ws://"+s.addr+"/held", nil)
			if err != nil {
				return // there are enough
			}
			defer c.CloseNow() //nolint:errcheck // the server may have closed it
			for range 17 {
				if c.Write(ctx, websocket.MessageText, message) != nil {
					return
				}
			}
			_, _, _ = c.Read(ctx) // until the server ends it, or the time is over
		})
	}
	all.Wait()
}

// holdLines sends lines that do not end over many connections.
func holdLines(t *testing.T, s *target) {
	part := []byte(strings.Repeat("0", mib-1))
	var conns []net.Conn
	var all sync.WaitGroup
	for range 900 {
		conn := s.dial()
		conns = append(conns, conn)
		all.Go(func() {
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Error(err)
			}
			_, _ = conn.Write(part) // the server may close it
		})
	}
	all.Wait()
	for _, conn := range conns {
		conn.Close() //nolint:errcheck // the server may have closed it
	}
}

// holdFile waits until the source has begun with what it can.
func holdFile(_ *testing.T, s *target) { s.idle() }

// flood sends many requests, some at a time, and counts how they were answered. Those that
// are answered late are left.
func (s *target) flood(n int, send func(i int) (path string, header map[string]string, body []byte)) {
	s.t.Helper()
	var mu sync.Mutex
	got, next := make(map[int]int), 0
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				path, header, body := send(i)
				status, _, _ := s.ask(3*time.Second, http.MethodPost, path, header, body)
				mu.Lock()
				got[status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if s.t.Logf("got %v", got); got[http.StatusServiceUnavailable] == 0 {
		s.t.Error("none was refused")
	}
}

// holdKept has a list of 250,000 kept for each of many keys. Caches and sessions make room
// for the new ones, and need not refuse any.
func holdKept(t *testing.T, s *target) {
	body := packed(t, zeros(250_000))
	header := map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 12 {
				_, _, _ = s.ask(10*time.Second, http.MethodPost, fmt.Sprintf("/held?key=%d", 12*i+k), header, body) // it may be refused
			}
		})
	}
	all.Wait()
}

func zeros(n int) []byte { return []byte("[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]") }

// holdSessions begins sessions of clients that say much of themselves, and calls of large
// arguments, in batches too.
func holdSessions(t *testing.T, s *target) {
	header := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"` + strings.Repeat("x", 15<<10) + `","version":"1"}}}`
	s.flood(scale(5000, 50_000), func(int) (string, map[string]string, []byte) { return "/held", header, []byte(hello) })
	s.alive()
	call := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{"x":%s}}}`, n, zeros(1_000_000))
	}
	header = maps.Clone(header)
	header["Content-Encoding"] = "gzip"
	one, batch := packed(t, []byte(call(1))), packed(t, []byte("["+strings.Repeat(call(1)+",", 2)+call(1)+"]"))
	s.flood(60, func(i int) (string, map[string]string, []byte) { return "/held", header, [][]byte{one, batch}[i%2] })
}

// holdChats sends long messages to many conversations, and frames that do not end.
func holdChats(t *testing.T, s *target) {
	header := map[string]string{"Content-Type": "application/json"}
	s.flood(1500, func(i int) (string, map[string]string, []byte) {
		return "/held/messages", header, fmt.Appendf(nil, `{"text": "%d %s"}`, i, strings.Repeat("x", 250<<10))
	})
	s.alive()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	part := []byte(`{"text": "` + strings.Repeat("x", 2<<20))
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			c, _, err := websocket.Dial(ctx, "ws://"+s.addr+"/held/socket", nil)
			if err != nil {
				return // there are enough
			}
			defer c.CloseNow() //nolint:errcheck // the server may have closed it
			w, err := c.Writer(ctx, websocket.MessageText)
			if err == nil {
				_, _ = w.Write(part) // the server may have closed it
			}
			_, _, _ = c.Read(ctx) // until the server ends it, or the time is over
		})
	}
	all.Wait()
}

// holdUpdates sends large messages of many chats, as Telegram does.
func holdUpdates(t *testing.T, s *target) {
	header := map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip", "X-Telegram-Bot-Api-Secret-Token": "secret"}
	s.flood(200, func(i int) (string, map[string]string, []byte) {
		update := `{"update_id": %d, "message": {"message_id": %d, "text": "hello", "rest": %s, "chat": {"id": %d}, "from": {"id": 7}}}`
		return "/held", header, packed(t, fmt.Appendf(nil, update, i+1, i+1, zeros(250_000), i%50))
	})
}

// holdAnswers answers questions with large lists, which their processes keep as they go on to
// ask.
func holdAnswers(t *testing.T, s *target) {
	const processes = 200
	for i := range processes {
		conn := s.dial()
		fmt.Fprintf(conn, "GET /held?user=%d HTTP/1.1\r\nHost: %s\r\n\r\n", i, s.addr)
	}
	body := packed(t, zeros(250_000))
	header := map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}
	s.flood(processes, func(i int) (string, map[string]string, []byte) { return fmt.Sprintf("/held?user=%d", i), header, body })
}
