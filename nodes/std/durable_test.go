package std_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
	"github.com/uniflow-labs/uniflow/value"
)

// durables are configs with which a kind takes part in durable processes in another way than with that of cases: it
// writes where that reads, waits where that does not, or is called where that has no server.
var durables = []struct {
	kind, name string
	make       conformCase
}{
	{"ask", "with a question", plain(flowtest.Case{
		Document: "- {kind: ask, name: n, text: Well?, timeout: 48h, ports: {out: [{name: next}], timeout: [{name: late}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
	})},
	{"auth", "signed", plain(flowtest.Case{
		Document: "- {kind: auth, name: n, any: {type: hmac, header: x-signature, encoding: base64, replay: 1m, keys: [{secret: a-key-of-some-length}]}, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  signed("a-key-of-some-length", "hello"),
		Unseen:   "what it has seen is in the program, and gone with it",
	})},
	{"batch", "with ids", func(t *testing.T) flowtest.Case {
		receiver := newCounting(t, "POST", nil)
		return flowtest.Case{
			Close:    receiver.Close,
			Changes:  receiver.count,
			Document: "- {kind: batch, name: n, url: '" + receiver.URL + "', ack: delivered, linger: 1ms, event_id: id, ports: {error: [{name: refused}]}}",
			Payload:  object("user", value.String("ann")),
		}
	}},
	{"file_sink", "without an answer", func(t *testing.T) flowtest.Case {
		path := filepath.Join(t.TempDir(), "out")
		return flowtest.Case{
			Changes:  lines(t, path),
			Document: "- {kind: file_sink, name: n, path: '" + path + "', ports: {error: [{name: failed}]}}",
			Payload:  value.Int(7),
		}
	}},
	{"form", "with two questions", plain(flowtest.Case{
		Document: "- {kind: form, name: n, timeout: 48h, fields: [{name: a, text: b}, {name: c, text: d}], ports: {out: [{name: next}], timeout: [{name: late}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
	})},
	{"cache", "in Redis", func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: cache, name: n, key: self, store: " + inRedis(t) + ", ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
		}
	}},
	{"http", "GET", func(t *testing.T) flowtest.Case {
		service := newCounting(t, "POST", nil)
		return flowtest.Case{
			Close:    service.Close,
			Changes:  service.count,
			Document: "- {kind: http, name: n, url: '" + service.URL + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
		}
	}},
	{"http", "that fails", func(t *testing.T) flowtest.Case {
		service := newCounting(t, "DELETE", http.NotFoundHandler())
		return flowtest.Case{
			Close:    service.Close,
			Changes:  service.count,
			Document: "- {kind: http, name: n, method: DELETE, url: '" + service.URL + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
		}
	}},
	{"limit", "in Redis", func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: limit, name: n, rate: 1000, concurrency: 10, store: " + inRedis(t) + ", ports: {out: [{name: next}], error: [{name: refused}]}}",
			Payload:  value.Int(7),
		}
	}},
	{"llm", "with a tool and text in pieces", func(t *testing.T) flowtest.Case {
		model := newCounting(t, "POST", modeltest.Handler("", func(r modeltest.Request) modeltest.Turn {
			if len(r.Messages) == 1 {
				return modeltest.Turn{Text: "let me see", Calls: []modeltest.Call{{Name: "look", Arguments: `{"id": 7}`}}}
			}
			return modeltest.Text("yes")
		}))
		return flowtest.Case{
			Close:   model.Close,
			Changes: model.count,
			Document: "- {kind: llm, name: n, url: '" + model.URL + "/v1', model: small, stream: true, tools: [{name: look}], limits: {silence: 5s}, " +
				"ports: {out: [{name: next}], part: [{name: said}], 'tool[0]': [{name: look}], error: [{name: failed}]}}",
			Payload: value.String("x"),
		}
	}},
	{"mcp_call", "a tool", func(t *testing.T) flowtest.Case {
		var calls atomic.Int64
		server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "t"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
			calls.Add(1)
			return nil, map[string]any{"done": true}, nil
		})
		service := newCounting(t, "", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
		return flowtest.Case{
			Close:    service.Close,
			Changes:  func() int { return int(calls.Load()) },
			Document: "- {kind: mcp_call, name: n, url: '" + service.URL + "', tool: t, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  object("a", value.Int(1)),
		}
	}},
	{"merge", "a row that is not complete", plain(flowtest.Case{
		Document: "- {kind: merge, name: n, ports: {out: [{name: next}]}}\n- {kind: probe, name: two, ports: {out: [{name: n, port: 'in[1]'}]}}",
		Payload:  value.Int(7),
	})},
	{"merge", "with a timeout", plain(flowtest.Case{
		Document: "- {kind: merge, name: n, timeout: 1s, ports: {out: [{name: next}], error: [{name: late}]}}\n- {kind: probe, name: two, ports: {out: [{name: n, port: 'in[1]'}]}}",
	})},
	{"nats_kv", "put", plain(flowtest.Case{
		Document: "- {kind: nats_kv, name: n, urls: 'nats://127.0.0.1:1', bucket: b, operation: put, key: k, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Unseen:   "there is no server",
	})},
	{"publish", "by Redis", func(t *testing.T) flowtest.Case {
		server := servertest.StartRedis(t, servertest.RedisOptions{})
		return flowtest.Case{
			Changes:  func() int { return published(t, server) },
			Document: "- {kind: publish, name: n, topic: a, store: {driver: redis, source: 'redis://" + server.Addr() + "'}}",
			Payload:  value.Int(7),
		}
	}},
	{"redis", "set", plain(flowtest.Case{
		Document: "- {kind: redis, name: n, urls: 'redis://127.0.0.1:1', command: [SET, a, 1], ports: {out: [{name: next}], error: [{name: failed}]}}",
		Unseen:   "there is no server",
	})},
	{"retry", "after a failure", plain(flowtest.Case{
		Document: "- {kind: retry, name: n, threshold: 2, backoff: {initial: 1s, max: 2s}, ports: {out: [{name: bad}], error: [{name: failed}]}}\n" +
			"- {kind: throw, name: bad}",
		Payload: value.Int(7),
	})},
	{"sleep", "for days", plain(flowtest.Case{
		Document: "- {kind: sleep, name: n, interval: 72h, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
	})},
	{"snippet", "that asks for the time", plain(flowtest.Case{
		Document: "- {kind: snippet, name: n, language: javascript, code: 'export default () => [Date.now(), Math.random()]', ports: {out: [{name: next}], error: [{name: failed}]}}",
	})},
	{"sql", "INSERT", func(t *testing.T) flowtest.Case {
		path := table(t, "CREATE TABLE t (a)")
		return flowtest.Case{
			Changes:  rows(t, path),
			Document: "- {kind: sql, name: n, driver: sqlite, source: '" + path + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.String("INSERT INTO t VALUES (7)"),
		}
	}},
	{"trail_append", "without an answer", func(t *testing.T) flowtest.Case {
		db := filepath.Join(t.TempDir(), "db")
		return flowtest.Case{
			Changes:  events(t, db),
			Document: "- {kind: trail_append, name: n, db: '" + db + "', ports: {error: [{name: refused}]}}",
			Payload:  value.List(object("user", value.String("ann"), "event", value.String("came")), object("user", value.String("bob"), "event", value.String("came"))),
		}
	}},
	{"wait", "for a minute", plain(flowtest.Case{
		Document: "- {kind: wait, name: n, key: '\"k\"', timeout: 1m, ports: {out: [{name: next}], ask: [{name: asked}], timeout: [{name: late}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
	})},
	{"wasm", "with the time", func(t *testing.T) flowtest.Case {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("hours.wasm", hours(), 0o600); err != nil {
			t.Fatal(err)
		}
		return flowtest.Case{
			Document: "- {kind: wasm, name: n, module: hours.wasm, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
		}
	}},
}

// inRedis is a store in a server of its own.
func inRedis(t *testing.T) string {
	return "{driver: redis, source: 'redis://" + servertest.StartRedis(t, servertest.RedisOptions{}).Addr() + "'}"
}

// published returns how many messages a server has got.
func published(t *testing.T, server *servertest.Redis) int {
	t.Helper()
	settings, err := client.ParseURL("redis://" + server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn := settings.Open()
	defer conn.Close()
	if err := conn.Live(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := conn.Do(t.Context(), "INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.ToString()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, rest, ok := strings.Cut(text, "cmdstat_publish:calls="); ok {
		if n, err = strconv.Atoi(rest[:strings.IndexByte(rest, ',')]); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestConformDurable runs the kit for durable processes with further configs.
func TestConformDurable(t *testing.T) {
	for _, d := range durables {
		t.Run(d.kind+" "+d.name, func(t *testing.T) {
			c := d.make(t)
			c.Kind, c.Kinds = d.kind, std.Defs("")
			flowtest.ConformDurable(t, c)
		})
	}
}

// signed is a request with a body and its signature.
func signed(secret, body string) value.Value {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return object("raw", value.Binary([]byte(body)), "header", object("X-Signature", value.List(value.String(base64.StdEncoding.EncodeToString(mac.Sum(nil))))))
}

// hours returns a module that answers with the hours since 1970, modulo 7.
func hours() []byte {
	m := wasmtest.Guest(slices.Concat(
		wasmtest.Int32(2048), []byte{0x10, 0}, wasmtest.Int64(int64(time.Hour)), []byte{0x7f}, wasmtest.Int64(7), []byte{0x81},
		wasmtest.Int64('0'), []byte{0x7c, 0x3c, 0, 0}, wasmtest.Int64(2048<<32|1),
	)...)
	m.Imports = []wasmtest.Import{{Module: "uniflow", Name: "now", Results: []byte{wasmtest.I64}}}
	return m.Bytes()
}
