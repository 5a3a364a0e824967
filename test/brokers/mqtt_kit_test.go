package brokers_test

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// An mqttSystem is a mosquitto. A peer of version 5 publishes to it, and keeps what sinks have
// published.
type mqttSystem struct {
	server  *brokers.MQTT
	version string
	number  int

	mu     sync.Mutex
	peer   *mqttPeer
	bodies [][]byte
}

func newMQTTSystem(t testing.TB, version string) *mqttSystem {
	t.Helper()
	m := &mqttSystem{server: brokers.StartMQTT(t, "max_inflight_messages 1500"), version: version}
	// The sessions of the source and of the one who reads are there before the first message.
	m.session(t, "kit", "orders/#")
	m.session(t, "reader", "orders/#")
	t.Cleanup(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.peer != nil {
			m.peer.conn.Close()
		}
	})
	return m
}

// session makes a session that stays.
func (m *mqttSystem) session(t testing.TB, id, filter string) {
	t.Helper()
	p, err := dialMQTT(m.server.Addr(), id)
	if err == nil {
		_, err = p.ask(&packets.Subscribe{PacketID: 1, Properties: new(packets.Properties), Subscriptions: []packets.SubOptions{{Topic: filter, QoS: 2}}}, packets.SUBSCRIBE)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.conn.Close()
}

// An mqttPeer is one connection of the tests.
type mqttPeer struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialMQTT(addr, id string) (*mqttPeer, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &mqttPeer{conn, bufio.NewReader(conn)}
	expiry := uint32(3600)
	ack, err := p.ask(&packets.Connect{
		ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: id, UsernameFlag: true, Username: "ann", PasswordFlag: true, Password: []byte("correct"),
		Properties: &packets.Properties{SessionExpiryInterval: &expiry},
	}, packets.CONNECT)
	if err == nil && ack.Content.(*packets.Connack).ReasonCode != 0 {
		err = fmt.Errorf("refused: %v", ack)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return p, nil
}

func (p *mqttPeer) send(content packets.Packet, kind byte) error {
	cp := &packets.ControlPacket{Content: content, FixedHeader: packets.FixedHeader{Type: kind}}
	if kind == packets.SUBSCRIBE || kind == packets.PUBREL {
		cp.Flags = 2
	}
	_, err := cp.WriteTo(p.conn)
	return err
}

func (p *mqttPeer) read() (*packets.ControlPacket, error) {
	p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	return packets.ReadPacket(p.in)
}

func (p *mqttPeer) ask(content packets.Packet, kind byte) (*packets.ControlPacket, error) {
	if err := p.send(content, kind); err != nil {
		return nil, err
	}
	return p.read()
}

// produce publishes messages, in order, again until each is acknowledged.
func (m *mqttSystem) produce(t testing.TB, messages []streamtest.Message) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for left := messages; len(left) > 0 && t.Context().Err() == nil; {
		if m.peer == nil {
			var err error
			if m.peer, err = dialMQTT(m.server.Addr(), "producer"); err != nil {
				m.peer = nil
				continue // it comes back
			}
		}
		n, err := m.publish(left[:min(len(left), 20)])
		left = left[n:]
		if err != nil {
			m.peer.conn.Close()
			m.peer = nil
		}
	}
}

func (m *mqttSystem) publish(messages []streamtest.Message) (acked int, err error) {
	for i, msg := range messages {
		m.number++
		err := m.peer.send(&packets.Publish{
			Topic: "orders/made", Payload: msg.Body, QoS: 1, PacketID: uint16(i + 1),
			Properties: &packets.Properties{User: []packets.User{{Key: "id", Value: fmt.Sprint("m", m.number)}}},
		}, packets.PUBLISH)
		if err != nil {
			return 0, err
		}
	}
	for acked < len(messages) {
		p, err := m.peer.read()
		if err != nil {
			return acked, err
		}
		if _, ok := p.Content.(*packets.Puback); ok {
			acked++
		}
	}
	return acked, nil
}

func (m *mqttSystem) fields(kind, addr string) map[string]any {
	return map[string]any{"kind": kind, "url": "mqtt://" + addr, "user": "ann", "password": "correct", "version": m.version}
}

func testMQTTSource(t *testing.T, version string, without map[streamtest.Row]string) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   std.Defs(""),
		Source:  true,
		Without: without,
		System: func(t testing.TB) *streamtest.System {
			m := newMQTTSystem(t, version)
			return &streamtest.System{
				Addr:    m.server.Addr(),
				Restart: func(t testing.TB) { m.server.Restart(t) },
				Source: func(addr string) map[string]any {
					f := m.fields("mqtt_source", addr)
					f["topics"], f["client_id"] = "orders/#", "kit"
					return f
				},
				Produce: m.produce,
				Refuse:  refuseAMQP,
			}
		},
	})
}

func TestMQTTSource(t *testing.T) { testMQTTSource(t, "5", nil) }

func TestMQTT311Source(t *testing.T) {
	testMQTTSource(t, "3.1.1", map[streamtest.Row]string{
		streamtest.Durable: "MQTT 3.1.1 has nothing that is the same at each delivery of a message, so one that comes again starts another run.",
	})
}

func testMQTTSink(t *testing.T, version string, qos int) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: std.Defs(""),
		Sink:  true,
		System: func(t testing.TB) *streamtest.System {
			m := newMQTTSystem(t, version)
			return &streamtest.System{
				Addr:    m.server.Addr(),
				Restart: func(t testing.TB) { m.server.Restart(t) },
				Sink: func(addr string) map[string]any {
					f := m.fields("mqtt_sink", addr)
					f["topic"], f["qos"] = "${has(self.topic) ? self.topic : 'orders/made'}", qos
					return f
				},
				Consume: m.consume,
				Reject: func() value.Value {
					return value.Map(
						value.Field{Name: "body", Value: value.String("x")},
						value.Field{Name: "topic", Value: value.String("orders/#")},
					)
				},
				Refuse: refuseAMQP,
			}
		},
	})
}

func TestMQTTSink(t *testing.T)     { testMQTTSink(t, "5", 1) }
func TestMQTTQoS2Sink(t *testing.T) { testMQTTSink(t, "5", 2) }
func TestMQTT311Sink(t *testing.T)  { testMQTTSink(t, "3.1.1", 1) }

// consume returns the bodies of all messages, in order: those that it has read before, and those
// that wait in the session of the reader, up to a mark.
func (m *mqttSystem) consume(t testing.TB) [][]byte {
	t.Helper()
	m.mu.Lock()
	m.number++
	mark := fmt.Sprint(`{"mark":`, m.number, "}")
	m.mu.Unlock()
	m.produce(t, []streamtest.Message{{Body: []byte(mark)}})
	p, err := dialMQTT(m.server.Addr(), "reader")
	if err != nil {
		t.Fatal(err)
	}
	defer p.conn.Close()
	for {
		cp, err := p.read()
		if err != nil {
			t.Fatal(err)
		}
		switch c := cp.Content.(type) {
		case *packets.Publish:
			m.bodies = append(m.bodies, c.Payload)
			if c.QoS == 2 {
				err = p.send(&packets.Pubrec{PacketID: c.PacketID, Properties: new(packets.Properties)}, packets.PUBREC)
			} else {
				err = p.send(&packets.Puback{PacketID: c.PacketID, Properties: new(packets.Properties)}, packets.PUBACK)
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(c.Payload) == mark {
				return m.bodies
			}
		case *packets.Pubrel:
			if err := p.send(&packets.Pubcomp{PacketID: c.PacketID, Properties: new(packets.Properties)}, packets.PUBCOMP); err != nil {
				t.Fatal(err)
			}
		}
	}
}
