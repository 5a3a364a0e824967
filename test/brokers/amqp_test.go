package brokers_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// mistake serves a document, and returns why it does not start.
func mistake(t *testing.T, document string) string {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	list, err := f.Apply(document)
	return fmt.Sprint(list, err)
}

// A queue and an exchange that are missing are errors with their place, at the start; a record
// for an exchange that is missing is an error of its own.
func TestAMQPMissing(t *testing.T) {
	server := brokers.SharedAMQP(t)
	vhost := server.Vhost(t)
	at := fmt.Sprintf("url: 'amqp://%s/%s', user: ann, password: correct", server.Addr(), vhost)
	for _, c := range []struct{ document, want string }{
		{"- {kind: amqp_source, name: n, queue: nothing, " + at + "}", `no queue "nothing"`},
		{"- {kind: amqp_sink, name: n, exchange: nothing, " + at + "}", `no exchange "nothing"`},
		{"- {kind: amqp_source, name: n, queue: q, " + strings.Replace(at, vhost, "nowhere", 1) + "}", `virtual host "nowhere" does not exist`},
	} {
		if got := mistake(t, c.document); !strings.Contains(got, c.want) || !strings.Contains(got, "test.yaml:1:") {
			t.Errorf("%s: got %s, want %s", c.document, got, c.want)
		}
	}
	f := flowtest.New(t, std.Defs("")...)
	if list, err := f.Apply("- {kind: amqp_sink, name: n, exchange: '${self.to}', routing_key: q, mandatory: false, encode: text, " + at + "}"); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	for to, want := range map[string]string{"nothing": `no exchange "nothing"`, "amq.topic": "<nil>"} {
		_, _, err := f.Engine().Run(t.Context(), "n", value.Map(value.Field{Name: "to", Value: value.String(to)}))
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("to %s: got %s, want %s", to, got, want)
		}
	}
}

// An amqpPeer is a virtual host, and a channel of the tests in it.
type amqpPeer struct {
	*amqp.Channel
	t      *testing.T
	server *brokers.AMQP
	vhost  string
	fields string // that each kind needs
}

func newAMQPPeer(t *testing.T, server *brokers.AMQP) *amqpPeer {
	t.Helper()
	p := &amqpPeer{t: t, server: server, vhost: server.Vhost(t)}
	p.fields = fmt.Sprintf("url: 'amqp://%s/%s', user: ann, password: correct", server.Addr(), p.vhost)
	conn, err := server.Dial(p.vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if p.Channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	if err := p.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *amqpPeer) queue(name string, arguments amqp.Table) {
	p.t.Helper()
	if _, err := p.QueueDeclare(name, true, false, false, false, arguments); err != nil {
		p.t.Fatal(err)
	}
}

// publish publishes a message, and waits until the broker has it.
func (p *amqpPeer) publish(exchange, key string, m amqp.Publishing) {
	p.t.Helper()
	c, err := p.PublishWithDeferredConfirm(exchange, key, true, false, m)
	if err != nil {
		p.t.Fatal(err)
	}
	if !c.Wait() {
		p.t.Fatal("the broker does not take the message")
	}
}

// empty waits until a queue has no message, nor one that is not acknowledged.
func (p *amqpPeer) empty(queue string) {
	p.t.Helper()
	until(p.t, "the queue "+queue+" is empty", func() bool {
		all, _ := p.server.Count(p.t, p.vhost, queue)
		return all == 0
	})
}

// TestAMQP runs against one broker, which says that connections are lost after two seconds of
// silence, and takes messages of 1 MiB.
func TestAMQP(t *testing.T) {
	cert, key := certificateFiles(t)
	secure := freeport.Port(t)
	server := brokers.StartAMQP(t, "heartbeat = 1", "max_message_size = 1048576",
		"listeners.ssl.1 = 127.0.0.1:"+strconv.Itoa(secure), "ssl_options.certfile = "+cert, "ssl_options.keyfile = "+key, "ssl_options.cacertfile = "+cert)
	for name, test := range map[string]func(*testing.T, *amqpPeer){
		"quorum": testAMQPQuorum, "declare": testAMQPDeclare, "reply": testAMQPReply, "vanishes": testAMQPVanishes,
		"refusals": testAMQPRefusals, "blocked": testAMQPBlocked, "silence": testAMQPSilence, "nameless": testAMQPNameless,
		"tls": func(t *testing.T, p *amqpPeer) { testAMQPTLS(t, p, secure, cert) },
	} {
		t.Run(name, func(t *testing.T) { test(t, newAMQPPeer(t, server)) })
	}
}

// A quorum queue counts deliveries, also those to other programs. The attempts of the node go
// on from there.
func testAMQPQuorum(t *testing.T, p *amqpPeer) {
	p.queue("orders", amqp.Table{"x-queue-type": "quorum"})
	p.publish("", "orders", amqp.Publishing{Body: []byte("1"), DeliveryMode: 2})
	for range 2 {
		until(t, "the message comes", func() bool {
			d, ok, err := p.Get("orders", false)
			if err != nil {
				t.Fatal(err)
			}
			return ok && d.Nack(false, true) == nil
		})
	}
	f := natsFlow(t)
	f.Probe("got").Do(func(_ node.Process, pkt node.Packet) node.Result {
		if attempt, _ := pkt.Payload.Get("attempt"); attempt.String() != "4" {
			return node.Fail(errors.New("not yet"))
		}
		return node.None()
	})
	f.Load("- {kind: amqp_source, name: from, queue: orders, retry: {threshold: 10, backoff: {initial: 1ms}}, " + p.fields + ", ports: {out: [{name: got}]}}")
	f.Probe("got").Wait(3)
	p.empty("orders")
	var attempts []string
	for _, m := range f.Probe("got").Payloads() {
		attempt, _ := m.Get("attempt")
		attempts = append(attempts, attempt.String())
	}
	if want := []string{"2", "3", "4"}; !slices.Equal(attempts, want) {
		t.Errorf("got the attempts %v, want %v", attempts, want)
	}
}

// What is declared exists, gets messages, and is declared twice without harm. Other properties
// are an error.
func testAMQPDeclare(t *testing.T, p *amqpPeer) {
	source := func(declare string) string {
		return "- {kind: amqp_source, name: from, queue: orders, declare: {" + declare + "}, " + p.fields + ", ports: {out: [{name: got}]}}"
	}
	for range 2 {
		f := natsFlow(t)
		f.Load(source("exchange: events, bindings: ['orders.*', 'returns.#'], arguments: {x-max-length: 100, x-overflow: reject-publish}"))
		p.publish("events", "orders.made", amqp.Publishing{Body: []byte("1")})
		p.publish("events", "returns.a.b", amqp.Publishing{Body: []byte("2")})
		f.Probe("got").Wait(2)
		p.empty("orders")
		f.Close()
	}
	for declare, want := range map[string]string{
		"type: classic": "what exists has other properties",
		"exchange: events, exchange_type: direct, bindings: [a], arguments: {x-max-length: 100, x-overflow: reject-publish}": "what exists has other properties",
	} {
		if got := mistake(t, source(declare)); !strings.Contains(got, want) || !strings.Contains(got, "test.yaml:1:") {
			t.Errorf("%s: got %s, want %s", declare, got, want)
		}
	}
}

// The answer of a process goes to reply_to with the correlation_id, also if it is an error. An
// address that nothing listens at does no harm to those after it.
func testAMQPReply(t *testing.T, p *amqpPeer) {
	p.queue("service", nil)
	p.queue("answers", nil)
	f := natsFlow(t)
	f.Load("- {kind: amqp_source, name: from, queue: service, " + p.fields + ", ports: {out: [{name: half}]}}\n" +
		"- {kind: snippet, name: half, language: cel, code: 'body / 2'}")
	for i, c := range []struct{ to, body, want, failure string }{
		{"a queue that does not exist", "4", "", ""},
		{"answers", "42", "21", ""},
		{"answers", `"x"`, "", "500"},
		{"answers", "8", "4", ""},
	} {
		id := fmt.Sprint("c", i)
		p.publish("", "service", amqp.Publishing{Body: []byte(c.body), ReplyTo: c.to, CorrelationId: id})
		p.empty("service")
		if c.to != "answers" {
			continue
		}
		var d amqp.Delivery
		until(t, "the answer comes", func() bool {
			var ok bool
			var err error
			if d, ok, err = p.Get("answers", true); err != nil {
				t.Fatal(err)
			}
			return ok
		})
		failure := ""
		if status, ok := d.Headers["status"]; ok {
			failure = fmt.Sprint(status)
		}
		if string(d.Body) != c.want || d.CorrelationId != id || failure != c.failure {
			t.Errorf("%s: got %q for %s with the headers %v, want %q", c.body, d.Body, d.CorrelationId, d.Headers, c.want)
		}
	}
}

// A queue that is deleted makes the node unready, and one that is there again makes it ready.
func testAMQPVanishes(t *testing.T, p *amqpPeer) {
	for _, kind := range []string{"classic", "quorum"} {
		p.queue(kind, amqp.Table{"x-queue-type": kind})
		f := natsFlow(t)
		f.Load("- {kind: amqp_source, name: from, queue: " + kind + ", " + p.fields + ", ports: {out: [{name: got}]}}")
		p.publish("", kind, amqp.Publishing{Body: []byte("1")})
		f.Probe("got").Wait(1)
		if _, err := p.QueueDelete(kind, false, false, false); err != nil {
			t.Fatal(err)
		}
		until(t, "the node is not ready", func() bool { return strings.Contains(fmt.Sprint(f.Engine().Ready()), "queue \""+kind+"\"") })
		p.queue(kind, amqp.Table{"x-queue-type": kind})
		p.publish("", kind, amqp.Publishing{Body: []byte("2")})
		f.Probe("got").Wait(2)
		until(t, "the node is ready", func() bool { return len(f.Engine().Ready()) == 0 })
		f.Close()
	}
}

// A full queue is an outage, if all messages go there. A message that is too large is an error
// of its own: others that are under way arrive.
func testAMQPRefusals(t *testing.T, p *amqpPeer) {
	p.queue("full", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	p.publish("", "full", amqp.Publishing{Body: []byte("1")})
	p.queue("roomy", nil)
	f := natsFlow(t)
	f.Load("- {kind: amqp_sink, name: full, routing_key: full, " + p.fields + "}\n" +
		"- {kind: amqp_sink, name: some, routing_key: '${self.routing_key}', encode: text, " + p.fields + "}")
	for name, payload := range map[string]value.Value{"full": value.Int(1), "some": amqpMessage("x", "full")} {
		e := node.Describe(f.Send(name, payload).Payload.AsError())
		if e.Status != 503 || e.Code != "nack" || e.Outage != (name == "full") {
			t.Errorf("%s: got %+v, want an error nack, which is an outage if the queue is always the same", name, e)
		}
	}
	large := f.Start("some", amqpMessage(strings.Repeat("x", 2<<20), "roomy"))
	calls := make([]*flowtest.Call, 50)
	for i := range calls {
		calls[i] = f.Start("some", amqpMessage("x", "roomy"))
	}
	if got := flowtest.Show(large.Response()); !strings.Contains(got, "message size") {
		t.Errorf("too large: got %s", got)
	}
	lost := 0
	for _, call := range calls {
		if got := flowtest.Show(call.Response()); got != "none" {
			lost++
			if !strings.Contains(got, "connection lost") {
				t.Errorf("got %s", got)
			}
		}
	}
	if all, _ := p.server.Count(t, p.vhost, "roomy"); all < len(calls)-lost {
		t.Errorf("%d were confirmed, and %d are there", len(calls)-lost, all)
	}
}

// A broker that lacks memory takes no messages: an outage, which the node says, and which ends
// when the broker takes messages again. Copies of the messages do not wait in the network.
func testAMQPBlocked(t *testing.T, p *amqpPeer) {
	p.queue("orders", nil)
	f := natsFlow(t)
	f.Load("- {kind: amqp_sink, name: n, routing_key: orders, timeout: 300ms, " + p.fields + "}")
	p.server.Alarm(t, true)
	defer p.server.Alarm(t, false)
	for _, want := range []string{"not_connected", "blocked", "blocked"} { // the first one comes to know it
		e := node.Describe(f.Send("n", value.Int(1)).Payload.AsError())
		if e.Status != 503 || e.Code != want || !e.Outage || !strings.Contains(fmt.Sprint(e), "low on memory") {
			t.Errorf("got %+v, want an outage %s", e, want)
		}
	}
	if got := fmt.Sprint(f.Engine().Ready()); !strings.Contains(got, "low on memory") {
		t.Errorf("ready: got %s", got)
	}
	p.server.Alarm(t, false)
	until(t, "the node is ready", func() bool { return len(f.Engine().Ready()) == 0 })
	if got := flowtest.Show(f.Send("n", value.Int(2))); got != "none" {
		t.Errorf("after that: got %s", got)
	}
	if all, _ := p.server.Count(t, p.vhost, "orders"); all != 2 {
		t.Errorf("%d messages are there, want the first one and the last one", all)
	}
}

func amqpMessage(body, key string) value.Value {
	return value.Map(value.Field{Name: "body", Value: value.String(body)}, value.Field{Name: "routing_key", Value: value.String(key)})
}

// While the node has no room, for longer than the heartbeat, the connection stays: nothing is
// lost, and nothing comes twice. The time is that in which the broker ends a connection that is
// silent.
func testAMQPSilence(t *testing.T, p *amqpPeer) {
	p.queue("orders", nil)
	const n, size = 60, 1 << 20 // more than buffers on the way take
	for range n {
		p.publish("", "orders", amqp.Publishing{Body: []byte(strings.Repeat("x", size)), DeliveryMode: 2})
	}
	f := natsFlow(t)
	gate := make(chan struct{})
	f.Probe("got").Do(f.Until(gate, flowtest.None))
	f.Load("- {kind: amqp_source, name: from, queue: orders, decode: text, max_in_flight: 200, bytes: 2MiB, " + p.fields + ", ports: {out: [{name: got}]}}")
	f.Probe("got").Wait(2)
	for range 2 { // after a silence of three heartbeats, the library would end it, too
		silentAMQP(t, p)
	}
	if got := f.Probe("got").Len(); got > 4 {
		t.Errorf("%d messages have begun, with room for 2 MiB", got)
	}
	close(gate)
	p.empty("orders")
	if got := f.Probe("got").Len(); got != n {
		t.Errorf("got %d messages, want %d", got, n)
	}
	if log := f.Log(); strings.Contains(log, "lost") {
		t.Errorf("the connection was lost:\n%s", log)
	}
}

// silentAMQP opens a connection that says nothing after its opening, and waits until the broker
// ends it.
func silentAMQP(t *testing.T, p *amqpPeer) {
	t.Helper()
	conn, err := amqp.DialConfig("amqp://"+p.server.Addr(), amqp.Config{
		Vhost: p.vhost, Heartbeat: -1, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "ann", Password: "correct"}},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			return mute{conn}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // it has ended
	<-conn.NotifyClose(make(chan *amqp.Error, 1))
}

// A mute connection sends no heartbeat.
type mute struct{ net.Conn }

func (m mute) Write(p []byte) (int, error) {
	if len(p) > 0 && p[0] == 8 {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// A message without message_id starts no durable run, unless the workflow has a key for it.
func testAMQPNameless(t *testing.T, p *amqpPeer) {
	p.queue("orders", nil)
	f := natsFlow(t)
	f.Options.Journal = memory.New()
	f.Probe("bad").Do(flowtest.None)
	f.Load("- {kind: amqp_source, name: from, queue: orders, durability: accept, " + p.fields + ", ports: {out: [{name: got}], error: [{name: bad}]}}")
	p.publish("", "orders", amqp.Publishing{Body: []byte("1")})
	f.Probe("bad").Wait(1)
	p.publish("", "orders", amqp.Publishing{Body: []byte("2"), MessageId: "two"})
	f.Probe("got").Wait(1)
	if got := f.Probe("bad").String(); !strings.Contains(got, "message_id") {
		t.Errorf("got %s", got)
	}
	p.empty("orders")
}

// testAMQPTLS connects with the right authority, and names the field for each mistake.
func testAMQPTLS(t *testing.T, p *amqpPeer, port int, cert string) {
	other, _ := certificateFiles(t)
	p.queue("orders", nil)
	for tls, want := range map[string]string{
		fmt.Sprintf("tls: {ca: %q}", cert):                           "",
		"tls: {skip_verify: true}":                                   "",
		fmt.Sprintf("tls: {ca: %q}", other):                          "tls.ca: ",
		fmt.Sprintf("tls: {ca: %q, server_name: example.com}", cert): "tls.server_name: ",
	} {
		for _, kind := range []string{"amqp_source, queue: orders", "amqp_sink, routing_key: orders"} {
			f := natsFlow(t)
			list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, url: 'amqps://127.0.0.1:%d/%s', user: ann, password: correct, %s}", kind, port, p.vhost, tls))
			got := fmt.Sprint(list, err)
			if refused := err != nil || list.HasErrors(); refused != (want != "") || !strings.Contains(got, want) || strings.Contains(f.Log(), "connecting failed") {
				t.Errorf("%s, %s: got %s\n%s\nwant %q", kind, tls, got, f.Log(), want)
			}
			f.Close()
		}
	}
}
