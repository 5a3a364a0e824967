package brokers_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// An mqttTest is a mosquitto, and a peer that publishes to it and reads the topic answers.
type mqttTest struct {
	*mqttPeer
	t      *testing.T
	server *brokers.MQTT
	fields string // that each kind needs
}

func newMQTTTest(t *testing.T, options ...string) *mqttTest {
	t.Helper()
	m := &mqttTest{t: t, server: brokers.StartMQTT(t, options...)}
	m.fields = fmt.Sprintf("url: 'mqtt://%s', user: ann, password: correct", m.server.Addr())
	var err error
	if m.mqttPeer, err = dialMQTT(m.server.Addr(), "peer"); err == nil {
		t.Cleanup(func() { m.conn.Close() })
		_, err = m.ask(&packets.Subscribe{PacketID: 1, Properties: new(packets.Properties), Subscriptions: []packets.SubOptions{{Topic: "answers"}}}, packets.SUBSCRIBE)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// publish publishes a message, and waits until the broker has it, unless its qos is 0.
func (m *mqttTest) publish(p *packets.Publish) {
	m.t.Helper()
	if p.Properties == nil {
		p.Properties = new(packets.Properties)
	}
	p.PacketID = 7
	if err := m.send(p, packets.PUBLISH); err != nil {
		m.t.Fatal(err)
	}
	for p.QoS > 0 {
		switch c := m.next().(type) {
		case *packets.Puback:
			return
		case *packets.Pubcomp:
			return
		case *packets.Pubrec:
			if err := m.send(&packets.Pubrel{PacketID: c.PacketID, Properties: new(packets.Properties)}, packets.PUBREL); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

func (m *mqttTest) next() packets.Packet {
	m.t.Helper()
	p, err := m.read()
	if err != nil {
		m.t.Fatal(err)
	}
	return p.Content
}

func (m *mqttTest) answer() *packets.Publish {
	m.t.Helper()
	for {
		if p, ok := m.next().(*packets.Publish); ok {
			return p
		}
	}
}

// What a broker says of one message of MQTT 5 is the error of that message.
func TestMQTTRefusals(t *testing.T) {
	m := newMQTTTest(t)
	f := natsFlow(t)
	f.Load("- {kind: mqtt_sink, name: n, topic: '${self.topic}', encode: text, " + m.fields + "}")
	for _, c := range []struct{ topic, body, want string }{
		{"secret", "x", "not authorized"},
		{"free", "x", "none"},
		{"a/+", "x", "has wildcards"},
		{"", "x", "is not a topic"},
		{"free", strings.Repeat("x", 16_000_000), "the broker takes 16000000"},
		{"free", strings.Repeat("x", 15_000_000), "none"},
	} {
		payload := value.Map(value.Field{Name: "topic", Value: value.String(c.topic)}, value.Field{Name: "body", Value: value.String(c.body)})
		if got := flowtest.Show(f.Send("n", payload)); !strings.Contains(got, c.want) {
			t.Errorf("%d bytes to %q: got %s, want %s", len(c.body), c.topic, got, c.want)
		}
	}
	if got := f.Log(); strings.Contains(got, "lost") {
		t.Errorf("the connection was lost:\n%s", got)
	}
}

// The answer of a process goes to the response topic with the correlation data, also if it is
// an error.
func TestMQTTReply(t *testing.T) {
	m := newMQTTTest(t)
	f := natsFlow(t)
	f.Load("- {kind: mqtt_source, name: from, topics: service, client_id: a, " + m.fields + ", ports: {out: [{name: half}]}}\n" +
		"- {kind: snippet, name: half, language: cel, code: 'body / 2'}")
	for i, c := range []struct{ topic, body, want, failure string }{
		{"a/+", "2", "", "none"},
		{"answers", "42", "21", ""},
		{"answers", `"x"`, "", "500"},
		{"answers", "8", "4", ""},
	} {
		id := fmt.Sprint("c", i)
		m.publish(&packets.Publish{Topic: "service", QoS: 1, Payload: []byte(c.body), Properties: &packets.Properties{ResponseTopic: c.topic, CorrelationData: []byte(id)}})
		if c.failure == "none" {
			continue
		}
		got, failure := m.answer(), ""
		for _, u := range got.Properties.User {
			if u.Key == "status" {
				failure = u.Value
			}
		}
		if string(got.Payload) != c.want || string(got.Properties.CorrelationData) != id || failure != c.failure {
			t.Errorf("%s: got %q with %q and %v, want %q", c.body, got.Payload, got.Properties.CorrelationData, got.Properties.User, c.want)
		}
	}
}

// Two nodes share the messages of a subscription: each comes to one of them, and both work.
func TestMQTTShared(t *testing.T) {
	m := newMQTTTest(t)
	f := natsFlow(t)
	for _, name := range []string{"one", "two"} {
		f.Probe(name).Do(flowtest.None)
	}
	source := "- {kind: mqtt_source, name: from %[1]s, topics: $share/g/orders/#, client_id: c-%[1]s, %[2]s, ports: {out: [{name: %[1]s}]}}\n"
	f.Load(fmt.Sprintf(source+strings.ReplaceAll(source, "[1]", "[3]"), "one", m.fields, "two"))
	const n = 40
	for i := range n {
		m.publish(&packets.Publish{Topic: "orders/made", QoS: 1, Payload: []byte(strconv.Itoa(i))})
	}
	until(t, "all have come", func() bool { return f.Probe("one").Len()+f.Probe("two").Len() >= n })
	seen := make(map[string]bool)
	for _, payload := range slices.Concat(f.Probe("one").Payloads(), f.Probe("two").Payloads()) {
		body, _ := payload.Get("body")
		seen[body.String()] = true
	}
	if one, two := f.Probe("one").Len(), f.Probe("two").Len(); one == 0 || two == 0 || one+two != n || len(seen) != n {
		t.Errorf("got %d and %d messages, %d of them different, want %d in all", one, two, len(seen), n)
	}
}

// With a qos of 2, a message that fails comes again here, and one that was settled does not come
// with the next connection. With the broker killed on the way, none is lost.
func TestMQTTQoS2(t *testing.T) {
	m := newMQTTTest(t)
	document := "- {kind: mqtt_source, name: from, topics: orders/#, client_id: a, qos: 2, retry: {backoff: {initial: 1ms}}, " + m.fields + ", ports: {out: [{name: got}]}}"
	f := natsFlow(t)
	f.Probe("got").Do(func(_ node.Process, pkt node.Packet) node.Result {
		if attempt, _ := pkt.Payload.Get("attempt"); attempt.String() == "0" {
			return node.Fail(fmt.Errorf("not yet"))
		}
		return node.None()
	})
	f.Load(document)
	for i := range 5 {
		m.publish(&packets.Publish{Topic: "orders/made", QoS: 2, Payload: []byte(strconv.Itoa(i))})
	}
	f.Probe("got").Wait(10)
	f.Close()
	again := natsFlow(t)
	again.Load(document)
	m.publish(&packets.Publish{Topic: "orders/made", QoS: 2, Payload: []byte("99")})
	again.Probe("got").Wait(1)
	if got := again.Probe("got").String(); !strings.Contains(got, `"body":99`) || again.Probe("got").Len() != 1 || !strings.Contains(got, `"qos":2`) {
		t.Errorf("got %s", got)
	}
}

// With a qos of 0, messages without room are dropped and counted; the others come once.
func TestMQTTDropped(t *testing.T) {
	m := newMQTTTest(t)
	f := natsFlow(t)
	gate := make(chan struct{})
	f.Probe("got").Do(f.Until(gate, flowtest.None))
	f.Load("- {kind: mqtt_source, name: from, topics: orders/#, client_id: a, qos: 0, max_in_flight: 2, " + m.fields + ", ports: {out: [{name: got}]}}")
	const n = 50
	for i := range n {
		m.publish(&packets.Publish{Topic: "orders/made", Payload: []byte(strconv.Itoa(i))})
	}
	until(t, "some are dropped", func() bool { return f.Figure("source_dropped_total") > 0 })
	close(gate)
	until(t, "each has come or is counted", func() bool { return f.Probe("got").Len()+int(f.Figure("source_dropped_total")) == n })
}

// A retained message comes with the subscription, and not again with the next connection of the
// session.
func TestMQTTRetained(t *testing.T) {
	m := newMQTTTest(t)
	m.publish(&packets.Publish{Topic: "state/hall", QoS: 1, Retain: true, Payload: []byte("1")})
	for i, want := range []string{`"body":1`, `"body":2`} {
		f := natsFlow(t)
		f.Load("- {kind: mqtt_source, name: from, topics: state/#, client_id: a, " + m.fields + ", ports: {out: [{name: got}]}}")
		if i > 0 {
			m.publish(&packets.Publish{Topic: "state/hall", QoS: 1, Payload: []byte("2")})
		}
		f.Probe("got").Wait(1)
		if got := f.Probe("got").String(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		f.Close()
	}
}

// A message without an id starts no durable run if it can come again.
func TestMQTTNameless(t *testing.T) {
	m := newMQTTTest(t)
	f := natsFlow(t)
	f.Options.Journal = memory.New()
	f.Probe("bad").Do(flowtest.None)
	f.Load("- {kind: mqtt_source, name: from, topics: orders, client_id: a, durability: accept, " + m.fields + ", ports: {out: [{name: got}], error: [{name: bad}]}}")
	m.publish(&packets.Publish{Topic: "orders", QoS: 1, Payload: []byte("1")})
	f.Probe("bad").Wait(1)
	m.publish(&packets.Publish{Topic: "orders", QoS: 1, Payload: []byte("2"), Properties: &packets.Properties{User: []packets.User{{Key: "id", Value: "two"}}}})
	m.publish(&packets.Publish{Topic: "orders", Payload: []byte("3")})
	f.Probe("got").Wait(2)
	if got := f.Probe("bad").String(); !strings.Contains(got, "user property id") {
		t.Errorf("got %s", got)
	}
}

// TestMQTTTLS connects with the right authority, and names the field for each mistake.
func TestMQTTTLS(t *testing.T) {
	cert, key := certificateFiles(t)
	other, otherKey := certificateFiles(t)
	plain, mutual := freeport.Port(t), freeport.Port(t)
	listener := func(port int, more string) string {
		return fmt.Sprintf("listener %d 127.0.0.1\ncertfile %s\nkeyfile %s\n%s", port, cert, key, more)
	}
	brokers.StartMQTT(t, listener(plain, ""), listener(mutual, "cafile "+cert+"\nrequire_certificate true"))
	for _, c := range []struct {
		port         int
		fields, want string
	}{
		{plain, fmt.Sprintf("tls: {ca: %q}", cert), ""},
		{plain, "tls: {skip_verify: true}", ""},
		{plain, fmt.Sprintf("tls: {ca: %q}", other), "tls.ca: "},
		{plain, fmt.Sprintf("tls: {ca: %q, server_name: example.com}", cert), "tls.server_name: "},
		{mutual, fmt.Sprintf("tls: {ca: %[1]q, cert: %[1]q, key: %[2]q}", cert, key), ""},
		{mutual, fmt.Sprintf("tls: {ca: %q}", cert), "tls.cert: "},
		{mutual, fmt.Sprintf("tls: {ca: %q, cert: %q, key: %q}", cert, other, otherKey), "tls.cert: "},
	} {
		for _, version := range []string{"5", "3.1.1"} {
			for _, kind := range []string{"mqtt_source, topics: a, client_id: c", "mqtt_sink, topic: a"} {
				f := natsFlow(t)
				list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, version: '%s', url: 'mqtts://127.0.0.1:%d', user: ann, password: correct, %s}", kind, version, c.port, c.fields))
				got := fmt.Sprint(list, err)
				if refused := err != nil || list.HasErrors(); refused != (c.want != "") || !strings.Contains(got, c.want) || strings.Contains(f.Log(), "connecting failed") {
					t.Errorf("%s %s, %s: got %s\n%s\nwant %q", kind, version, c.fields, got, f.Log(), c.want)
				}
				f.Close()
			}
		}
	}
}
