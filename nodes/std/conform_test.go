package std_test

import (
	"bytes"
	"database/sql"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/ai/modeltest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A conformCase makes the case of a kind; t is for servers and folders that it needs.
type conformCase func(t *testing.T) flowtest.Case

// cases has a row for each kind: what [flowtest.Conform] sends to which node.
var cases = map[string]conformCase{
	"amqp_sink": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: amqp_sink, name: n, url: 'amqp://127.0.0.1:1', routing_key: q, timeout: 1ms, ports: {error: [{name: failed}]}}",
		Allocs:   -1, // there is no broker
	}),
	"amqp_source": plain(flowtest.Case{
		Document: "- {kind: amqp_source, name: n, url: 'amqp://127.0.0.1:1', queue: q, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"ask": plain(flowtest.Case{
		Document: "- {kind: ask, name: n, key: '\"k\"', timeout: 10ms, ports: {out: [{name: next}], timeout: [{name: late}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   -1, // of what waits
	}),
	"assert": plain(flowtest.Case{
		Document: "- {kind: assert, name: n, expect: self == 7, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.List(value.Int(7), value.Int(-1)),
		Allocs:   5, // of the language, and the new payload
	}),
	"auth": plain(flowtest.Case{
		Document: "- {kind: auth, name: n, any: {type: key, keys: [{id: billing, secret: a-key-of-some-length}]}, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  object("header", object("X-Api-Key", value.String("a-key-of-some-length"))),
		Example:  []value.Value{object("header", object("X-Api-Key", value.String("k3-of-the-mirror-in-the-south")))},
		Allocs:   4, // of the identity, and the new payload
	}),
	"batch": func(t *testing.T) flowtest.Case {
		receiver := newCounting(t, "POST", nil)
		return flowtest.Case{
			Close:    receiver.Close,
			Changes:  receiver.count,
			Document: "- {kind: batch, name: n, url: '" + receiver.URL + "', linger: 1ms, ports: {error: [{name: refused}]}}",
			Payload:  object("user", value.String("ann")),
			Allocs:   -1, // those of package batch
		}
	},
	"breaker": plain(flowtest.Case{
		Document: "- {kind: breaker, name: n, threshold: 1000000, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
	}),
	"cache": plain(flowtest.Case{
		Document: "- {kind: cache, name: n, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("sku", value.String("a-1"))},
	}),
	"chat": plain(flowtest.Case{
		Document: "- {kind: chat, name: n, secret: 0123456789abcdef, ports: {out: [{name: next}], history: [{name: past}], error: [{name: failed}]}}",
		Allocs:   20, // of the error, as there is no request
		Prepare:  func(f *flowtest.Flow) { f.Environment = map[string]string{"CHAT_SECRET": "0123456789abcdef"} },
	}),
	"collect": plain(flowtest.Case{
		Document: "- {kind: collect, name: n, linger: 0s, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{value.Int(1)},
		Allocs:   -1, // of the process and the goroutine of each list
	}),
	"debounce": plain(flowtest.Case{
		Document: "- {kind: debounce, name: n, quiet: 1ms, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("document", value.String("a-1"))},
		Allocs:   -1, // of the process that is started
	}),
	"dedupe": plain(flowtest.Case{
		Document: "- {kind: dedupe, name: n, key: self, ports: {out: [{name: next}], duplicate: [{name: again}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("order", value.String("a-1"))},
		Allocs:   3, // of the key
	}),
	"discord": plain(flowtest.Case{
		Unseen:   "it takes requests of a listener, which no durable process has; what it sends are parts of the answer",
		Document: "- {kind: discord, name: n, public_key: " + strings.Repeat("3b", 32) + ", ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   20, // of the error, as there is no request
	}),
	"emit": plain(flowtest.Case{
		Document: "- {kind: emit, name: n, otherwise: drop, ports: {error: [{name: failed}]}}",
		Payload:  value.Int(7),
	}),
	"decode": plain(flowtest.Case{
		Document: "- {kind: decode, name: n, format: csv, columns: [a], ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.String("1\n2\n"),
		Example:  []value.Value{value.String("a\n1\n")},
		Allocs:   20, // of the reader and the rows
	}),
	"encode": plain(flowtest.Case{
		Document: "- {kind: encode, name: n, format: ndjson, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.List(value.Int(1)),
		Example:  []value.Value{object("id", value.Int(1), "total", value.Int(2))},
		Allocs:   7,
	}),
	"file_sink": func(t *testing.T) flowtest.Case {
		path := filepath.Join(t.TempDir(), "out")
		return flowtest.Case{
			Changes:  lines(t, path),
			Document: "- {kind: file_sink, name: n, path: '" + path + "', answer: receipt, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
			Allocs:   20, // of the outlet, and the receipt
		}
	},
	"file_source": func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: file_source, name: n, paths: '" + filepath.Join(t.TempDir(), "*") + "', follow: true, ports: {out: [{name: next}], error: [{name: failed}]}}",
		}
	},
	"grpc": plain(flowtest.Case{
		Document: "- {kind: grpc, name: n, proto: grpc/health/v1/health.proto, methods: [{method: grpc.health.v1.Health/Check, port: 'out[0]'}], ports: {'out[0]': [{name: next}], error: [{name: failed}]}}",
		Allocs:   20, // of the error, as there is no request
	}),
	"grpc_call": func(t *testing.T) flowtest.Case {
		service := newCounting(t, http.MethodPost, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/proto") }))
		return flowtest.Case{
			Close:    service.Close,
			Changes:  service.count,
			Document: "- {kind: grpc_call, name: n, url: '" + service.URL + "', protocol: connect, proto: grpc/health/v1/health.proto, method: grpc.health.v1.Health/Check, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  object("service", value.String("a")),
			Allocs:   -1, // those of net/http
		}
	},
	"for": plain(flowtest.Case{
		Document: "- {kind: for, name: n, ports: {'out[0]': [{name: body}], 'out[1]': [{name: after}], error: [{name: failed}]}}",
		Payload:  value.List(value.Int(1), value.Int(2)),
		Example:  []value.Value{value.List(object("amount", value.Int(2), "price", value.Int(3)))},
		Allocs:   10,
	}),
	"exec": func(t *testing.T) flowtest.Case {
		path := filepath.Join(t.TempDir(), "out")
		script := `while read -r line; do echo x >> "$0"; printf "%s\\n" "$line"; done` // a line comes back as it is
		return flowtest.Case{
			Changes:  lines(t, path),
			Document: "- {kind: exec, name: n, command: [sh, -c, '" + script + "', '" + path + "'], processes: 1, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
			Example:  []value.Value{value.String("b\na\nb\n")},
			Allocs:   -1, // of the pipes, which have goroutines of their own
			Prepare:  func(f *flowtest.Flow) { f.Options.Programs = node.AllowPrograms() },
		}
	},
	"python": func(t *testing.T) flowtest.Case {
		path := filepath.Join(t.TempDir(), "out")
		code := `"def handle(p):\n  with open('` + path + `', 'a') as f: f.write('x\\n')\n  return p"`
		return flowtest.Case{
			Changes:  lines(t, path),
			Document: "- {kind: python, name: n, python: /usr/bin/python3, code: " + code + ", processes: 1, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
			Example:  []value.Value{object("items", value.List(object("price", value.Int(3))))},
			Allocs:   -1, // likewise
			Prepare:  func(f *flowtest.Flow) { f.Options.Programs = node.AllowPrograms() },
		}
	},
	"fork": plain(flowtest.Case{
		Document: "- {kind: fork, name: n, ports: {out: [{name: later}], error: [{name: failed}]}}",
		Example:  []value.Value{value.Int(1)},
		Allocs:   10, // of the child process
	}),
	"form": plain(flowtest.Case{
		Document: "- {kind: form, name: n, key: '\"k\"', timeout: 10ms, fields: [{name: a, text: b}], ports: {out: [{name: next}], timeout: [{name: late}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   -1, // of a failure: the packets of a test have no trigger that takes questions
	}),
	"generate": plain(flowtest.Case{
		Document: "- {kind: generate, name: n, interval: 1h, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"http": func(t *testing.T) flowtest.Case {
		service := newCounting(t, "POST", nil)
		return flowtest.Case{
			Close:    service.Close,
			Changes:  service.count,
			Document: "- {kind: http, name: n, method: POST, url: '" + service.URL + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.String("x"),
			Allocs:   -1,                                                                             // those of package net/http
			Prepare:  func(f *flowtest.Flow) { f.Environment = map[string]string{"API_TOKEN": "t"} }, // of the example
		}
	},
	"if": plain(flowtest.Case{
		Document: "- {kind: if, name: n, when: self > 3, ports: {'out[0]': [{name: yes}], 'out[1]': [{name: no}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("total", value.Int(5))},
		Allocs:   3, // of the language
	}),
	"kafka_sink": plain(flowtest.Case{ // no broker: the module test/brokers has them
		Unseen:   "nothing listens",
		Document: "- {kind: kafka_sink, name: n, brokers: ['127.0.0.1:1'], topic: t, timeout: 20ms, ports: {error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   -1, // those of the deadline
	}),
	"kafka_source": plain(flowtest.Case{
		Document: "- {kind: kafka_source, name: n, brokers: ['127.0.0.1:1'], topics: [t], ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"join": plain(flowtest.Case{
		Document: "- {kind: join, name: n, keys: {left: self, right: self}, within: 1ms, ports: {'out[0]': [{name: next}], 'out[1]': [{name: single}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("id", value.String("a-1"))},
		Allocs:   -1, // of the wait
	}),
	"limit": plain(flowtest.Case{
		Document: "- {kind: limit, name: n, rate: 1000, concurrency: 10, ports: {out: [{name: next}], error: [{name: refused}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("client", value.String("10.0.0.1"))},
		Allocs:   2, // of what follows the answer
	}),
	"listener": plain(flowtest.Case{
		Document: "- {kind: listener, name: n, host: 127.0.0.1, port: 0, ports: {out: [{name: handler}]}}",
	}),
	"login": plain(flowtest.Case{
		Document: "- {kind: login, name: n, required: false, issuer: 'http://127.0.0.1:1', url: 'http://127.0.0.1:8080', client_id: shop, secret: an example of at least 32 bytes!, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  object("path", value.String("/"), "method", value.String("GET"), "header", object()),
		Example:  []value.Value{object("path", value.String("/"), "method", value.String("GET"), "header", object("Accept", value.String("text/html")))},
		Allocs:   2, // of the lines of cookies
	}),
	"llm": func(t *testing.T) flowtest.Case {
		model := newCounting(t, "POST", modeltest.Handler("", func(modeltest.Request) modeltest.Turn { return modeltest.Text("yes") }))
		return flowtest.Case{
			Close:   model.Close,
			Changes: model.count,
			Document: "- {kind: llm, name: n, url: '" + model.URL + "/v1', model: small, tools: [{name: look}], limits: {silence: 5s}, " +
				"ports: {out: [{name: next}], 'tool[0]': [{name: look}], error: [{name: failed}]}}",
			Payload: value.String("x"),
			Allocs:  -1,                                                                           // those of package net/http
			Prepare: func(f *flowtest.Flow) { f.Environment = map[string]string{"LLM_KEY": "t"} }, // of the example
		}
	},
	"log": plain(flowtest.Case{
		Document: "- {kind: log, name: n, level: debug, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("id", value.Int(1))},
		Allocs:   -1, // of the log
	}),
	"mcp": plain(flowtest.Case{
		Document: "- {kind: mcp, name: n, tools: [{name: t, description: d}], ports: {out: [{name: called}], error: [{name: failed}]}}",
		Allocs:   20, // of the error, as there is no request
	}),
	"mcp_call": func(*testing.T) flowtest.Case {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		return flowtest.Case{
			Close:    service.Close,
			Unseen:   "there is no server: see TestConformDurable",
			Document: "- {kind: mcp_call, name: n, url: '" + service.URL + "', tool: t, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  object("a", value.Int(1)),
			Allocs:   -1, // those of package net/http
		}
	},
	"merge": plain(flowtest.Case{
		Document: "- {kind: merge, name: n, timeout: 1s, ports: {out: [{name: next}], error: [{name: late}]}}\n" +
			"- {kind: probe, name: one, ports: {out: [{name: n, port: 'in[0]'}]}}\n- {kind: probe, name: two, ports: {out: [{name: n, port: 'in[1]'}]}}",
		Example: []value.Value{value.Int(1)},
		Allocs:  28, // of the process that waits, and of a row that is dropped
	}),
	"mqtt_sink": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: mqtt_sink, name: n, url: 'mqtt://127.0.0.1:1', topic: t, timeout: 1ms, ports: {error: [{name: failed}]}}",
		Allocs:   -1, // there is no broker
	}),
	"mqtt_source": plain(flowtest.Case{
		Document: "- {kind: mqtt_source, name: n, url: 'mqtt://127.0.0.1:1', client_id: c, topics: t, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"nats_kv": plain(flowtest.Case{
		Document: "- {kind: nats_kv, name: n, urls: 'nats://127.0.0.1:1', bucket: b, operation: get, key: k, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   -1, // there is no server
	}),
	"mail": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: mail, name: n, host: 127.0.0.1, port: 1, from: a@example.com, to: b@example.com, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   -1, // there is no server
	}),
	"nats_request": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: nats_request, name: n, urls: 'nats://127.0.0.1:1', subject: s, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   -1, // there is no server
	}),
	"nats_sink": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: nats_sink, name: n, urls: 'nats://127.0.0.1:1', subject: s, timeout: 1ms, ports: {error: [{name: failed}]}}",
		Allocs:   -1, // there is no server
	}),
	"nats_source": plain(flowtest.Case{
		Document: "- {kind: nats_source, name: n, urls: 'nats://127.0.0.1:1', stream: S, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"postgres_cdc": plain(flowtest.Case{
		Document: "- {kind: postgres_cdc, name: n, source: 'postgres://127.0.0.1:1/x', slot: s, publication: p, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"postgres_listen": plain(flowtest.Case{
		Document: "- {kind: postgres_listen, name: n, source: 'postgres://127.0.0.1:1/x', channels: c, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"nop": plain(flowtest.Case{
		Document: "- {kind: nop, name: n}",
		Example:  []value.Value{value.Int(1)},
	}),
	"page": plain(flowtest.Case{
		Document: "- {kind: page, name: n, text: '<p>{{ . }}</p>', ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("title", value.String("a"), "orders", value.List(object("item", value.String("tea"))))},
		Allocs:   25, // of html/template
	}),
	"pipe": plain(flowtest.Case{
		Document: "- {kind: pipe, name: n, ports: {'out[0]': [{name: first}], 'out[1]': [{name: second}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{value.Int(1)},
	}),
	"proxy": plain(flowtest.Case{
		Document: "- {kind: proxy, name: n, target: 'http://127.0.0.1:1', header: {X-Method: '${self.method}'}, ports: {error: [{name: failed}]}}",
		Allocs:   20, // of the error, as there is no request
	}),
	"publish": plain(flowtest.Case{
		Unseen:   "what subscribes is in the program, and gone with it",
		Document: "- {kind: publish, name: n, topic: all, ports: {error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("room", value.Int(1))},
		Allocs:   3, // of the answer
	}),
	"recall": plain(flowtest.Case{ // its packets have no session; nodes/dialogue has tests with one
		Document: "- {kind: recall, name: n, ports: {out: [{name: next}], error: [{name: failed}]}}\n- {kind: session, name: s, key: self, ports: {out: [{name: n}]}}",
		Allocs:   5,
	}),
	"redis": plain(flowtest.Case{
		Document: "- {kind: redis, name: n, urls: 'redis://127.0.0.1:1', command: [GET, a], ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   -1, // there is no server
	}),
	"redis_sink": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: redis_sink, name: n, urls: 'redis://127.0.0.1:1', stream: s, timeout: 1ms, ports: {error: [{name: failed}]}}",
		Allocs:   -1, // there is no server
	}),
	"redis_source": plain(flowtest.Case{
		Document: "- {kind: redis_source, name: n, urls: 'redis://127.0.0.1:1', stream: s, group: g, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"reduce": plain(flowtest.Case{
		Document: "- {kind: reduce, name: n, init: 0, step: acc + item, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.List(value.Int(1), value.Int(2)),
		Example:  []value.Value{value.List(object("amount", value.Int(2), "price", value.Int(3)))},
		Allocs:   10, // of the language
	}),
	"remember": plain(flowtest.Case{
		Document: "- {kind: remember, name: n, set: {a: '${self}'}, append: {b: 1}, ports: {out: [{name: next}], error: [{name: failed}]}}\n- {kind: session, name: s, key: self, ports: {out: [{name: n}]}}",
		Allocs:   5,
	}),
	"retry": plain(flowtest.Case{
		Document: "- {kind: retry, name: n, threshold: 2, backoff: {initial: 1h, max: 2h}, when: 'true', ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   3,
	}),
	"router": plain(flowtest.Case{
		Document: "- {kind: router, name: n, routes: [{method: GET, path: '/a/:id', port: out}], ports: {out: [{name: a}], error: [{name: failed}]}}",
		Payload:  object("method", value.String("GET"), "path", value.String("/a/1")),
		Example:  []value.Value{object("method", value.String("GET"), "path", value.String("/users/7"))},
		Allocs:   5, // of the new payload
	}),
	"s3": plain(flowtest.Case{ // no service: the module test/brokers has one
		Unseen:   "nothing listens",
		Document: "- {kind: s3, name: n, bucket: shop, endpoint: 'http://127.0.0.1:1', action: get, key: a, timeout: 20ms, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   -1, // those of package net/http
	}),
	"s3_sink": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: s3_sink, name: n, bucket: shop, endpoint: 'http://127.0.0.1:1', key: '{part}', timeout: 20ms, ports: {error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   -1, // those of the deadline
	}),
	"s3_source": plain(flowtest.Case{
		Document: "- {kind: s3_source, name: n, bucket: shop, endpoint: 'http://127.0.0.1:1', ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"schedule": plain(flowtest.Case{
		Document: "- {kind: schedule, name: n, interval: 1s, overlap: allow, ports: {out: [{name: job}], error: [{name: failed}]}}",
	}),
	"session": plain(flowtest.Case{
		Document: "- {kind: session, name: n, key: self.user, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  object("user", value.String("ann")),
		Example:  []value.Value{object("user", value.String("ann"))},
		Allocs:   12,
	}),
	"slack": plain(flowtest.Case{
		Unseen:   "it takes requests of a listener, which no durable process has; what it sends are parts of the answer",
		Document: "- {kind: slack, name: n, token: xoxb-1, signing_secret: 0123456789abcdef, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   20, // as above
		Prepare: func(f *flowtest.Flow) {
			f.Environment = map[string]string{"SLACK_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": "0123456789abcdef"}
		},
	}),
	"enqueue": plain(flowtest.Case{
		Document: "- {kind: enqueue, name: n, queue: q, ports: {out: [{name: next}], error: [{name: failed}]}}\n- {kind: queue, name: q, ports: {out: [{name: drop}]}}\n- {kind: nop, name: drop}",
		Payload:  value.Int(7),
		Allocs:   -1, // those of the journal
		Prepare:  func(f *flowtest.Flow) { f.Options.Journal = memory.New() },
	}),
	"queue": plain(flowtest.Case{
		Document: "- {kind: queue, name: n, ports: {out: [{name: next}], dead: [{name: dead}], error: [{name: failed}]}}",
		Prepare:  func(f *flowtest.Flow) { f.Options.Journal = memory.New() },
	}),
	"signal": plain(flowtest.Case{
		Document: "- {kind: signal, name: n, event: e, key: '\"k\"', ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Allocs:   -1, // those of the journal
		Prepare:  func(f *flowtest.Flow) { f.Options.Journal = memory.New() },
	}),
	"sleep": plain(flowtest.Case{
		Document: "- {kind: sleep, name: n, interval: 1ms, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{value.Int(1)},
		Allocs:   19, // of the timer, of what stops it when the process is cancelled, and of the order of packets
	}),
	"snippet": plain(flowtest.Case{
		Document: "- {kind: snippet, name: n, language: cel, code: self + 1, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("name", value.String("ann"))},
		Allocs:   3, // of the language
	}),
	"socket_sink": plain(flowtest.Case{
		Unseen:   "nothing listens",
		Document: "- {kind: socket_sink, name: n, address: '127.0.0.1:1', timeout: 1ms, ports: {error: [{name: failed}]}}",
		Allocs:   -1, // nothing listens
	}),
	"socket_source": plain(flowtest.Case{
		Document: "- {kind: socket_source, name: n, address: '127.0.0.1:0', ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"split": plain(flowtest.Case{
		Document: "- {kind: split, name: n, ports: {'out[0]': [{name: one}], 'out[1]': [{name: two}], error: [{name: failed}]}}",
		Payload:  value.List(value.Int(1), value.Int(2)),
		Example:  []value.Value{value.List(value.String("ann"), value.Int(7))},
		Allocs:   4,
	}),
	"sql": func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: sql, name: n, driver: sqlite, source: '" + filepath.Join(t.TempDir(), "db") + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.String("SELECT 1"),
			Allocs:   -1, // those of the driver
		}
	},
	"subscribe": plain(flowtest.Case{
		Document: "- {kind: subscribe, name: n, topic: all, lifetime: 1s, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   -1, // of a subscription
	}),
	"static": func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: static, name: n, root: '" + t.TempDir() + "', ports: {error: [{name: failed}]}}",
			Allocs:   20, // of the error, as there is no request
		}
	},
	"stdin": plain(flowtest.Case{
		Document: "- {kind: stdin, name: n, ports: {out: [{name: next}], error: [{name: failed}]}}",
	}),
	"stdout": func(t *testing.T) flowtest.Case {
		path := filepath.Join(t.TempDir(), "out")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		before := os.Stdout
		os.Stdout = file
		return flowtest.Case{
			Changes: lines(t, path),
			Close: func() {
				os.Stdout = before
				if err := file.Close(); err != nil {
					t.Error(err)
				}
			},
			Document: "- {kind: stdout, name: n, answer: receipt, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
			Allocs:   20, // of the outlet, and the receipt
		}
	},
	"sql_sink": func(t *testing.T) flowtest.Case {
		path := table(t, "CREATE TABLE t (a)")
		return flowtest.Case{
			Changes:  rows(t, path),
			Document: "- {kind: sql_sink, name: n, driver: sqlite, source: '" + path + "', table: t, ports: {error: [{name: failed}]}}",
			Payload:  object("a", value.Int(7)),
			Allocs:   -1, // those of the driver
		}
	},
	"sql_source": func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: sql_source, name: n, driver: sqlite, source: '" + table(t, "CREATE TABLE t (a)") + "', table: t, cursor: a, ports: {out: [{name: next}], error: [{name: failed}]}}",
		}
	},
	"switch": plain(flowtest.Case{
		Document: "- {kind: switch, name: n, matches: [{when: self > 3, port: out}], default: 'out[1]', ports: {'out[0]': [{name: many}], 'out[1]': [{name: few}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("total", value.Int(20))},
		Allocs:   3, // of the language
	}),
	"telegram": plain(flowtest.Case{
		Unseen:   "it takes requests of a listener, which no durable process has; what it sends are parts of the answer",
		Document: "- {kind: telegram, name: n, token: '1:abcdef', webhook_secret: s, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Allocs:   20, // as above
		Prepare: func(f *flowtest.Flow) {
			f.Environment = map[string]string{"TELEGRAM_TOKEN": "1:abcdef", "WEBHOOK_SECRET": "s"}
		},
	}),
	"test": plain(flowtest.Case{
		Document: "- {kind: test, name: n, ports: {'out[0]': [{name: act}], 'out[1]': [{name: judge}]}}",
	}),
	"throw": plain(flowtest.Case{
		Document: "- {kind: throw, name: n, status: 404}",
		Payload:  value.String("gone"),
		Allocs:   6, // of the error
	}),
	"trail_append": func(t *testing.T) flowtest.Case {
		db := filepath.Join(t.TempDir(), "db")
		return flowtest.Case{
			Changes:  events(t, db),
			Document: "- {kind: trail_append, name: n, db: '" + db + "', time: 'null', ports: {error: [{name: refused}]}}",
			Payload:  object("user", value.String("ann"), "event", value.String("came")),
			Allocs:   -1, // those of package trail
		}
	},
	"trail_query": func(t *testing.T) flowtest.Case {
		db := filepath.Join(t.TempDir(), "db")
		return flowtest.Case{
			Document: "- {kind: trail_query, name: n, db: '" + db + "', query: {segment: {event: came, bucket: day}}, ports: {out: [{name: next}], error: [{name: failed}]}}\n" +
				"- {kind: trail_append, name: keep, db: '" + db + "'}",
			Allocs: -1, // those of package trail
		}
	},
	"trail_sink": func(t *testing.T) flowtest.Case {
		db := filepath.Join(t.TempDir(), "db")
		return flowtest.Case{
			Changes:  events(t, db),
			Document: "- {kind: trail_sink, name: n, db: '" + db + "', ports: {error: [{name: refused}]}}",
			Payload:  object("user", value.String("ann"), "event", value.String("came")),
			Allocs:   -1, // those of package trail
		}
	},
	"try": plain(flowtest.Case{
		Document: "- {kind: try, name: n, ports: {out: [{name: risky}], error: [{name: caught}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{value.Int(1)},
	}),
	"validate": plain(flowtest.Case{
		Document: "- {kind: validate, name: n, on: self, schema: {type: integer}, ports: {out: [{name: next}], error: [{name: refused}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("body", value.Map(value.Field{Name: "item", Value: value.String("tea")}, value.Field{Name: "count", Value: value.Int(1)}))},
	}),
	"watch": func(t *testing.T) flowtest.Case {
		return flowtest.Case{
			Document: "- {kind: watch, name: n, paths: '" + filepath.Join(t.TempDir(), "*") + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
		}
	},
	"sse_source": func(*testing.T) flowtest.Case {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		return flowtest.Case{
			Close:    service.Close,
			Document: "- {kind: sse_source, name: n, url: '" + service.URL + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
			Allocs:   -1, // those of package net/http
		}
	},
	"websocket_client": func(*testing.T) flowtest.Case {
		// What is not a WebSocket is tried again.
		service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		return flowtest.Case{
			Close:    service.Close,
			Unseen:   "nothing listens",
			Document: "- {kind: websocket_client, name: n, url: '" + strings.Replace(service.URL, "http", "ws", 1) + "', ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.String("x"),
			Allocs:   -1, // a goroutine that waits
		}
	},
	"wait": plain(flowtest.Case{
		Document: "- {kind: wait, name: n, key: '\"k\"', ports: {out: [{name: next}], timeout: [{name: late}], error: [{name: failed}]}}",
		Allocs:   20, // of the error, as the process is not durable
	}),
	"wasm": func(t *testing.T) flowtest.Case {
		t.Chdir(t.TempDir())
		for _, name := range []string{"guest.wasm", "price.wasm"} { // the second is that of the example
			if err := os.WriteFile(name, wasmtest.Echo().Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return flowtest.Case{
			Document: "- {kind: wasm, name: n, module: guest.wasm, ports: {out: [{name: next}], error: [{name: failed}]}}",
			Payload:  value.Int(7),
			Example:  []value.Value{object("id", value.String("a-1"))},
			Allocs:   4, // of the answer
		}
	},
	"websocket": plain(flowtest.Case{
		Document: "- {kind: websocket, name: n, topics: ['room/${self.params.room}'], ports: {out: [{name: message}], open: [{name: open}], close: [{name: closed}], error: [{name: failed}]}}",
		Allocs:   20, // of the error, as there is no request
	}),
	"window": plain(flowtest.Case{
		Document: "- {kind: window, name: n, size: 1m, max: 1, time: '\"2000-01-01T00:00:00Z\"', ports: {out: [{name: next}], late: [{name: late}], error: [{name: failed}]}}",
		Payload:  value.Int(7),
		Example:  []value.Value{object("page", value.String("/"), "at", value.String("2000-01-01T00:00:00Z"))},
		Allocs:   -1, // of the process that is started
	}),
}

func plain(c flowtest.Case) conformCase { return func(*testing.T) flowtest.Case { return c } }

// object makes a map of alternating names and values.
func object(pairs ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(pairs); i += 2 {
		b.Set(pairs[i].(string), pairs[i+1].(value.Value))
	}
	return b.Build()
}

// TestConform runs the kit for every kind. One without a row fails.
func TestConform(t *testing.T) {
	for _, d := range std.Defs("") {
		if d.Subgraph != node.NoSubgraph {
			continue // it has no node of its own: see internal/compile
		}
		t.Run(d.Kind, func(t *testing.T) {
			row, ok := cases[d.Kind]
			if !ok {
				t.Fatalf("add a row for kind %s to the cases in this file", d.Kind)
			}
			c := row(t)
			c.Kind, c.Kinds = d.Kind, std.Defs("")
			flowtest.Conform(t, c)
		})
	}
}

// A counting server counts requests with a method.
type counting struct {
	*httptest.Server
	requests atomic.Int64
}

// newCounting returns a server; a nil handler answers 200.
func newCounting(t *testing.T, method string, handler http.Handler) *counting {
	t.Helper()
	c := new(counting)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method {
			c.requests.Add(1)
		}
		if handler != nil {
			handler.ServeHTTP(w, r)
		}
	}))
	return c
}

func (c *counting) count() int { return int(c.requests.Load()) }

// lines counts those of a file, which may be missing.
func lines(t *testing.T, path string) func() int {
	return func() int {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("\n"))
	}
}

// rows counts those of the table t of a database of SQLite.
func rows(t *testing.T, path string) func() int {
	return func() (n int) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// events counts those of a store of package trail.
func events(t *testing.T, dir string) func() int {
	return func() int {
		s, err := trail.Open(dir, trail.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return int(s.Info().Rows)
	}
}

// table returns the path of a database of SQLite in which a statement was run.
func table(t *testing.T, statement string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	return path
}
