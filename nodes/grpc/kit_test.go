package grpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// types are fields of a node that has the types of the tests.
const types = "proto: all.proto, import_paths: [../../format/protobuf/testdata]"

// serve starts a workflow that serves the methods, and returns its address.
func serve(t *testing.T, methods, rest string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	f.Serve("- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: rpc, port: in}]}}\n" +
		"- {kind: grpc, name: rpc, " + types + ", methods: " + methods + "}\n" + rest)
	return f
}

// call runs grpc_call with fields, and returns the answer.
func call(t *testing.T, address, fields, payload string) (value.Value, error) {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	f.Load("- {kind: grpc_call, name: call, url: 'http://" + address + "', " + fields + "}\n")
	v, _, err := f.Engine().Run(context.Background(), "call", flowtest.Parse(t, payload))
	return v, err
}

func text(t *testing.T, v value.Value) string {
	t.Helper()
	data, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const echo = `[{method: test.Tester/Unary, port: 'out[0]'}, {method: test.Tester/Down, port: 'out[1]'}, {method: test.Tester/Up, port: 'out[2]'}, {method: test.Tester/Both, port: 'out[3]'}]` +
	`, ports: {'out[0]': [{name: unary}], 'out[1]': [{name: down}], 'out[2]': [{name: up}], 'out[3]': [{name: both}]}`

const flows = `
- {kind: snippet, name: unary, language: cel, code: '{"body": {"text": body.text + "!", "i64": body.i64}, "header": {"seen": header["X-Tenant"][0]}}'}
- {kind: snippet, name: down, language: cel, code: '[{"i64": 1}, {"i64": 2}]', ports: {out: [{name: each}]}}
- {kind: for, name: each, ports: {'out[0]': [{name: emit}], 'out[1]': [{name: end}]}}
- {kind: snippet, name: end, language: cel, code: 'null'}
- {kind: emit, name: emit}
- {kind: snippet, name: up, language: cel, code: '{"i64": body.size()}'}
- {kind: snippet, name: both, language: cel, code: '{"text": body.text + "?"}'}
`

func TestBothEnds(t *testing.T) {
	f := serve(t, echo, flows)
	check := func(fields, payload, want string) {
		t.Helper()
		v, err := call(t, f.Address(), fields, payload)
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			return
		}
		if got := text(t, v); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
	for _, protocol := range []string{"grpc", "grpc-web", "connect"} {
		fields := types + ", protocol: " + protocol
		check(fields+", method: test.Tester/Unary, metadata: {x-tenant: '${self.text}'}, answer: full", `{"text":"a","i64":7}`, `"text":"a!"`)
		check(fields+", method: test.Tester/Unary, metadata: {x-tenant: '${self.text}'}, answer: full", `{"text":"a","i64":7}`, `"seen":["a"]`)
		check(fields+", method: test.Tester/Down", `{}`, `"i64":2`)
		check(fields+", method: test.Tester/Up", `[{},{},{}]`, `"i64":3`)
		check(fields+", method: test.Tester/Both", `[{"text":"x"},{"text":"y"}]`, `"text":"y?"`)
	}
	check("reflection: true, method: test.Tester/Up", `[{},{}]`, `"i64":2`)
}

// Bytes that are not a message are the mistake of the client, also those that package proto panics for.
func TestMalformed(t *testing.T) {
	f := serve(t, echo, flows)
	for _, body := range []string{"\x9a\x01\b\b\xca0\r0000", "\xff", "\xc2\x01\x02\x10\xff"} {
		resp, err := f.Client().Post("http://"+f.Address()+"/test.Tester/Unary", "application/proto", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got %d", body, resp.StatusCode)
		}
	}
	if strings.Contains(f.Log(), "panic") {
		t.Error(f.Log())
	}
}

// A request that is not a call is not found, and a payload that is not a request has none to answer.
func TestNoCall(t *testing.T) {
	f := serve(t, echo, flows)
	if r := f.Request("GET", "/elsewhere", ""); r.Status != http.StatusNotFound {
		t.Errorf("got %+v", r)
	}
	if resp := f.Send("rpc", value.Map()); !resp.IsError() || !strings.Contains(resp.Payload.AsError().Error(), "want the request of a listener") {
		t.Errorf("got %v", resp.Payload)
	}
}

// The answer of a type with fields of an envelope is the message. A port without a link answers
// with the message of the request.
func TestAnswersWithFieldsOfEnvelopes(t *testing.T) {
	const fields = `source: 'syntax = "proto3"; message M { string body = 1; int32 status = 2; } service S { rpc Say(M) returns (M); rpc Echo(M) returns (M); }'`
	f := flowtest.New(t, std.Defs("")...)
	f.Serve("- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: rpc, port: in}]}}\n" +
		"- {kind: grpc, name: rpc, " + fields + ", methods: [{method: S/Say, port: 'out[0]'}, {method: S/Echo, port: 'out[1]'}], ports: {'out[0]': [{name: say}], 'out[1]': []}}\n" +
		"- {kind: snippet, name: say, language: cel, code: '{\"body\": body.body + \"!\", \"status\": 404}'}\n")
	for method, want := range map[string]string{"Say": `{"body":"a!","status":404}`, "Echo": `{"body":"a","status":7}`} {
		v, err := call(t, f.Address(), fields+", method: S/"+method, `{"body":"a","status":7}`)
		if err != nil {
			t.Errorf("%s: %v", method, err)
		} else if got := text(t, v); got != want {
			t.Errorf("%s: got %s, want %s", method, got, want)
		}
	}
}
