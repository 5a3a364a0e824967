package brokers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// natsFlow returns a flow with the clock of the machine, as servers do not know another
// one.
func natsFlow(t *testing.T) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	return f
}

// until waits for something that a server does.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// TestNATSRequest asks a service, and one that a workflow is.
func TestNATSRequest(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{Memory: true})
	conn := server.Connect(t)
	if _, err := conn.Subscribe("fail", func(m *nats.Msg) {
		m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Service-Error": {"no such price"}, "Nats-Service-Error-Code": {"404"}}})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe("text", func(m *nats.Msg) { m.Respond([]byte("not JSON")) }); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe("silent", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	f := natsFlow(t)
	f.Load(fmt.Sprintf(`
- {kind: nats_source, name: service, urls: %[1]q, subjects: "double.*", queue: q, ports: {out: [{name: double}]}}
- {kind: snippet, name: double, language: cel, code: 'body * 2'}
- {kind: nats_request, name: ask, urls: %[1]q, subject: "${self.to}", ports: {out: [{name: show, port: in}]}}
- {kind: nats_request, name: impatient, urls: %[1]q, subject: silent, timeout: 300ms, ports: {out: [{name: show, port: in}]}}
- {kind: nats_request, name: number, urls: %[1]q, subject: double.number, ports: {out: [{name: show, port: in}]}}
- {kind: snippet, name: show, language: cel, code: body}
`, server.URL()))
	for _, c := range []struct{ node, payload, want string }{
		{"number", `21`, "42"},
		{"number", `{"body": 4, "header": {"A": "b"}}`, "8"},
		{"ask", `{"to": "nobody"}`, `nothing answers requests to "nobody"`},
		{"ask", `{"to": "fail"}`, "no such price"},
		{"ask", `{"to": "text"}`, "the answer is not JSON"},
		{"impatient", `1`, "no answer within 300ms"},
		{"ask", `{"to": "a b"}`, `"a b" is not a subject`},
		{"ask", `{"to": "all.>"}`, "wildcards"},
	} {
		if got := f.SendJSON(c.node, c.payload); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
	// Many are under way at a time, and one that is cancelled ends.
	calls := make([]*flowtest.Call, 200)
	for i := range calls {
		calls[i] = f.Start("number", value.Int(int64(i)))
	}
	for i, call := range calls {
		if got := flowtest.Show(call.Response()); got != fmt.Sprint(2*i) {
			t.Errorf("%d: got %s", i, got)
		}
	}
	server.Restart(t)
	until(t, "requests are answered again", func() bool { return f.SendJSON("number", "1") == "2" })
}

func TestNATSBucket(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{})
	js, err := jetstream.New(server.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", History: 5}); err != nil {
		t.Fatal(err)
	}
	f := natsFlow(t)
	var document strings.Builder
	for _, operation := range []string{"get", "put", "create", "delete", "purge", "history"} {
		fmt.Fprintf(&document, "- {kind: nats_kv, name: %[1]s, urls: %[2]q, bucket: b, operation: %[1]s, key: 'k.${self.k}', value: 'self.?v.orValue(null)'}\n", operation, server.URL())
	}
	fmt.Fprintf(&document, "- {kind: nats_kv, name: update, urls: %q, bucket: b, operation: update, key: 'k.${self.k}', value: self.v, revision: self.r}\n", server.URL())
	fmt.Fprintf(&document, "- {kind: nats_kv, name: keys, urls: %q, bucket: b, operation: keys}\n", server.URL())
	fmt.Fprintf(&document, "- {kind: nats_kv, name: none, urls: %q, bucket: none, operation: keys}\n", server.URL())
	f.Load(document.String())
	for _, c := range []struct{ node, payload, want string }{
		{"keys", `null`, `[]`},
		{"get", `{"k": 1}`, "no such key"},
		{"put", `{"k": 1, "v": {"a": [1]}}`, `{"key":"k.1","revision":1}`},
		{"create", `{"k": 1, "v": 2}`, "the key exists"},
		{"create", `{"k": 2, "v": 2}`, `{"key":"k.2","revision":2}`},
		{"update", `{"k": 1, "v": 3, "r": 2}`, "another revision"},
		{"update", `{"k": 1, "v": 3, "r": 1}`, `{"key":"k.1","revision":3}`},
		{"get", `{"k": 1}`, `{"key":"k.1","value":3,"revision":3,"time":`},
		{"delete", `{"k": 1}`, `{"key":"k.1"}`},
		{"get", `{"k": 1}`, "no such key"},
		{"history", `{"k": 1}`, `"operation":"delete"}]`},
		{"purge", `{"k": 1}`, `{"key":"k.1"}`},
		{"keys", `null`, `["k.2"]`},
		{"put", `{"k": "a b", "v": 1}`, "not a key"},
		{"none", `null`, `no bucket "none"`},
	} {
		if got := f.SendJSON(c.node, c.payload); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
}

// TestNATSMissingBucket runs a job before there is its bucket, and then with it.
func TestNATSMissingBucket(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{})
	js, err := jetstream.New(server.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"in.ndjson": "{\"k\": 1}\n{\"k\": 2}\n", "job.yaml": fmt.Sprintf(`
- {kind: file_source, name: in, paths: [in.ndjson], checkpoint: {file: in.pos}, ports: {out: [{name: keep}], error: [{name: bad}]}}
- {kind: nats_kv, name: keep, urls: %q, bucket: seen, operation: put, key: 'k.${self.body.k}', value: body}
- {kind: file_sink, name: bad, path: bad.ndjson}
`, server.URL())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(limit string) (code int, output string) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "job.yaml", "--progress", "none", "--connect-timeout", limit)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1")
		text, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	if code, output := run("300ms"); code != 3 || !strings.Contains(output, `waiting for node "keep" (job.yaml:3:3): there is no bucket "seen"`) {
		t.Errorf("without the bucket: exit %d, %s", code, output)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "bad.ndjson")); len(text) > 0 {
		t.Errorf("dead letters: %s, %v", text, err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "seen"})
	if err != nil {
		t.Fatal(err)
	}
	if code, output := run("30s"); code != 0 {
		t.Errorf("with the bucket: exit %d, %s", code, output)
	}
	if keys, err := kv.Keys(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("got the keys %v, %v, want two", keys, err)
	}
}

// TestNATSBucketVanishes makes a bucket after a workflow has started, and removes it.
func TestNATSBucketVanishes(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{})
	js, err := jetstream.New(server.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	f := natsFlow(t)
	f.Load(fmt.Sprintf("- {kind: nats_kv, name: put, urls: %[1]q, bucket: b, operation: put, key: k}\n- {kind: nats_kv, name: get, urls: %[1]q, bucket: b, operation: get, key: k}", server.URL()))
	for range 2 { // the second time, it was there
		for _, name := range []string{"put", "get"} {
			if e := node.Describe(f.Send(name, value.Int(1)).Payload.AsError()); e.Status != 503 || !e.Outage {
				t.Errorf("%s without the bucket: got %+v, want an outage", name, e)
			}
		}
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"}); err != nil {
			t.Fatal(err)
		}
		until(t, "there is the bucket", func() bool { return strings.Contains(f.SendJSON("put", "1"), "revision") })
		if got := f.SendJSON("get", "1"); !strings.Contains(got, `"value":1`) {
			t.Errorf("got %s", got)
		}
		if err := js.DeleteKeyValue(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNATSCore publishes without JetStream: a denied subject is an error, and what finds
// no room is counted.
func TestNATSCore(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{Memory: true, User: "ann", Password: "pw", Denied: "secret.>"})
	f := natsFlow(t)
	login := fmt.Sprintf("urls: %q, user: ann, password: pw", server.URL())
	gate := make(chan struct{})
	f.Probe("got").Do(f.Until(gate, flowtest.None))
	f.Load(fmt.Sprintf(`
- {kind: nats_source, name: from, %[1]s, subjects: [a.*, b], max_in_flight: 2, ports: {out: [{name: got}]}}
- {kind: nats_sink, name: to, %[1]s, mode: core, subject: "${self.to}"}
- {kind: nats_sink, name: stored, %[1]s, subject: nowhere, timeout: 2s}
`, login))
	if got := f.SendJSON("to", `{"to": "secret.x"}`); !strings.Contains(got, "must not publish") {
		t.Errorf("a denied subject: got %s", got)
	}
	if got := f.SendJSON("stored", `1`); !strings.Contains(got, "no stream takes") {
		t.Errorf("without a stream: got %s", got)
	}
	for range 20 {
		if got := f.SendJSON("to", `{"to": "b"}`); got != "none" {
			t.Fatalf("got %s", got)
		}
	}
	f.Probe("got").Wait(2)
	close(gate)
	var denied strings.Builder
	list, err := natsFlow(t).Apply(fmt.Sprintf("- {kind: nats_source, name: from, %s, subjects: secret.x}", login))
	fmt.Fprint(&denied, list, err)
	if !strings.Contains(denied.String(), "must not subscribe") {
		t.Errorf("a denied subscription: got %s", denied.String())
	}
}

// TestNATSVanishes deletes the consumer, and then the stream, while they are read.
func TestNATSVanishes(t *testing.T) {
	n := newNATSSystem(t)
	f := natsFlow(t)
	f.Load(fmt.Sprintf(`- {kind: nats_source, name: from, urls: %q, user: ann, password: correct, stream: ORDERS, durable: d, ports: {out: [{name: got}]}}`, n.server.URL()))
	publish := func(body string) {
		if _, err := n.js.Publish(t.Context(), "orders.made", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	publish(`1`)
	f.Probe("got").Wait(1)
	until(t, "the first is acknowledged", func() bool {
		c, err := n.js.Consumer(t.Context(), "ORDERS", "d")
		return err == nil && c.CachedInfo().NumAckPending == 0
	})
	if err := n.js.DeleteConsumer(t.Context(), "ORDERS", "d"); err != nil {
		t.Fatal(err)
	}
	publish(`2`)
	f.Probe("got").Wait(2)
	if err := n.js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	until(t, "the stream is made again", func() bool { // its files are removed meanwhile
		_, err := n.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
		return err == nil
	})
	publish(`3`)
	f.Probe("got").Wait(3)
	for i, m := range f.Probe("got").Payloads() {
		if body, _ := m.Get("body"); body.String() != fmt.Sprint(i+1) {
			t.Errorf("message %d: got %s", i+1, m)
		}
	}
}

// TestNATSLate starts without a server, and goes on when there is one.
func TestNATSLate(t *testing.T) {
	n := newNATSSystem(t)
	n.server.Stop()
	f := natsFlow(t)
	login := fmt.Sprintf("urls: %q, user: ann, password: correct", n.server.URL())
	f.Load(fmt.Sprintf(`
- {kind: nats_source, name: from, %[1]s, stream: ORDERS, ports: {out: [{name: got}]}}
- {kind: nats_sink, name: to, %[1]s, subject: orders.made, answer: receipt}
- {kind: nats_kv, name: keys, %[1]s, bucket: b, operation: keys}
`, login))
	if got := f.SendJSON("keys", "null"); !strings.HasPrefix(got, "error: ") {
		t.Errorf("without a server: got %s", got)
	}
	n.server.Restart(t)
	if got := f.SendJSON("to", `{"body": 7, "id": "seven"}`); got != `{"stream":"ORDERS","sequence":1}` {
		t.Errorf("got %s", got)
	}
	if got := f.SendJSON("to", `{"body": 7, "id": "seven"}`); got != `{"stream":"ORDERS","sequence":1,"duplicate":true}` {
		t.Errorf("the same again: got %s", got)
	}
	f.Probe("got").Wait(1)
	if strings.Contains(f.Log(), "correct") {
		t.Errorf("the log shows the password:\n%s", f.Log())
	}
}

// TestNATSStreamLater waits for a stream that does not exist when the workflow starts, and
// logs so with the place of the node.
func TestNATSStreamLater(t *testing.T) {
	n := newNATSSystem(t)
	f := natsFlow(t)
	f.Load(fmt.Sprintf(`
- {kind: nats_source, name: from, urls: %[1]q, user: ann, password: correct, stream: LATER, ports: {out: [{name: got}]}}
- {kind: nats_sink, name: to, urls: %[1]q, user: ann, password: correct, subject: later.made}
`, n.server.URL()))
	if got := f.Log(); !strings.Contains(got, "at=test.yaml:2:3") || !strings.Contains(got, `the server has no stream \"LATER\"`) {
		t.Errorf("got %s", got)
	}
	if _, err := n.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LATER", Subjects: []string{"later.*"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.SendJSON("to", `{"body": 7}`); strings.HasPrefix(got, "error: ") {
		t.Errorf("got %s", got)
	}
	f.Probe("got").Wait(1)
}

func TestNATSMistakes(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{User: "ann", Password: "correct"})
	for _, c := range []struct{ fields, want string }{
		{"kind: nats_request, subject: a", "requires credentials"},
		{"kind: nats_request, subject: a, user: ann, password: a wrong horse", "password: "},
		{"kind: nats_kv, bucket: b, operation: keys, user: bob, password: a wrong horse", "password: "},
		{"kind: nats_sink, subject: a, token: a wrong horse", "token: "},
		{"kind: nats_source, subjects: a, nkey: /no/such/file", "nkey: "},
		{"kind: nats_source, subjects: a, credentials: /no/such/file", "credentials: "},
		{"kind: nats_source, subjects: a, user: ann, password: correct, tls: {skip_verify: true}", "does not offer TLS"},
		{"kind: nats_sink, subject: a, user: ann, password: correct, tls: {ca: /no/such/file}", "tls.ca: "},
	} {
		f := natsFlow(t)
		list, err := f.Apply(fmt.Sprintf("- {%s, name: n, urls: %q}", c.fields, server.URL()))
		text := fmt.Sprint(list, err, f.Log())
		if !strings.Contains(text, c.want) || strings.Contains(text, "horse") || err == nil && !list.HasErrors() {
			t.Errorf("%s: got %s, want %s", c.fields, text, c.want)
		}
	}
}
