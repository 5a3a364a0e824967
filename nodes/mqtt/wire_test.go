package mqtt

import (
	"bufio"
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// both are the versions, by what a workflow calls them.
var both = map[string]wire{"5": wire5{}, "3.1.1": wire3{}}

func read(w wire, data []byte) (*packets.ControlPacket, error) {
	n := &session{settings: &settings{wire: w}, in: bufio.NewReader(bytes.NewReader(data))}
	return n.next()
}

// What a version writes, it reads again.
func TestWire(t *testing.T) {
	for version, w := range both {
		for _, p := range []*packets.ControlPacket{
			packet(packets.PUBLISH, &packets.Publish{Topic: "a/b", Payload: []byte("x"), QoS: 2, PacketID: 7, Retain: true, Properties: new(packets.Properties)}),
			packet(packets.PUBLISH, &packets.Publish{Topic: "a", Payload: []byte{}, Properties: new(packets.Properties)}),
			packet(packets.PUBACK, &packets.Puback{PacketID: 7, Properties: new(packets.Properties)}),
			packet(packets.PUBREC, &packets.Pubrec{PacketID: 8, Properties: new(packets.Properties)}),
			packet(packets.PUBREL, &packets.Pubrel{PacketID: 9, Properties: new(packets.Properties)}),
			packet(packets.PUBCOMP, &packets.Pubcomp{PacketID: 65535, Properties: new(packets.Properties)}),
		} {
			var data, again bytes.Buffer
			if err := w.write(&data, p); err != nil {
				t.Fatalf("%s: %v", version, err)
			}
			got, err := read(w, data.Bytes())
			if err != nil {
				t.Errorf("%s: %s: %v", version, p, err)
				continue
			}
			if err := w.write(&again, got); err != nil || !bytes.Equal(data.Bytes(), again.Bytes()) {
				t.Errorf("%s: %s came back as %s, %v", version, p, got, err)
			}
		}
	}
}

// A peer that does not speak MQTT is told from a broker, without memory for the length that its
// bytes seem to have.
func TestWireStranger(t *testing.T) {
	for _, text := range []string{
		"\x00\x00", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x36\x02\x00\x00", "\x30\xff\xff\xff\xff\x7f", "\x30\xff\xff\xff\x7f", "\x15\x03\x01\x00\x02", "-ERR unknown command\r\n", "",
	} {
		for version, w := range both {
			if p, err := read(w, []byte(text)); err == nil {
				t.Errorf("%s: %q is the packet %s", version, text, p)
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = read(wire5{}, []byte("\x30\xff\xff\xff\xff\x7f"))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<16 {
		t.Errorf("a length that the protocol does not have took %d bytes", took)
	}
}

// FuzzWire reads any bytes, as packets of a broker: an error, or a packet that the session can
// look at.
func FuzzWire(f *testing.F) {
	for _, seed := range []string{
		"\x20\x03\x00\x00\x00", "\x20\x02\x00\x00", "\x20\x06\x00\x87\x03\x21\x00\x00", "\x30\x06\x00\x01a\x00xy", "\x32\x08\x00\x01a\x00\x07\x00xy", "\x40\x02\x00\x07", "\x40\x03\x00\x07\x97",
		"\x50\x02\x00\x07", "\x62\x02\x00\x07", "\x70\x02\x00\x07", "\x90\x04\x00\x01\x00\x80", "\x90\x03\x00\x01\x01", "\xd0\x00", "\xe0\x02\x8e\x00", "\x30\x12\x00\x01a\x0d\x26\x00\x02id\x00\x01m\x03\x00\x01tx",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		for _, w := range both {
			p, err := read(w, data)
			if err != nil {
				continue
			}
			switch c := p.Content.(type) {
			case *packets.Publish:
				_, _ = headerValue(c.Properties.User)
			case *packets.Suback:
				_ = new(reader).refusal(c)
			case *packets.Connack:
				_ = (&settings{}).refusal(c)
			case *packets.Puback:
				_ = new(writer).verdict(c.ReasonCode, c.Properties)
			case *packets.Disconnect:
				_ = reasonText(c.ReasonCode, c.Properties)
			}
		}
	})
}

func TestFilter(t *testing.T) {
	for filter, right := range map[string]bool{
		"a": true, "a/b": true, "/": true, "+": true, "#": true, "a/+/b": true, "a/#": true, "$share/g/a/#": true, "$SYS/x": true,
		"": false, "a#": false, "#/a": false, "a/b+": false, "a\x00": false, "\xff": false, "$share": false, "$share/g": false, "$share/g/": false, "$share//a": false, "$share/+/a": false, "$share/g/#/a": false,
		strings.Repeat("x", longest+1): false,
	} {
		if problem := checkFilter(filter); (problem == "") != right {
			t.Errorf("%.40q: got %q", filter, problem)
		}
	}
}

// FuzzTopic has no topic that a filter without wildcards would not be.
func FuzzTopic(f *testing.F) {
	for _, seed := range []string{"a/b", "a/+", "#", "", "\x00", "$share/g/a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		problem := checkFilter(text)
		if checkTopic(text) == nil && problem != "" && !strings.HasPrefix(text, "$share") {
			t.Errorf("%q is a topic, but not a filter: %s", text, problem)
		}
	})
}
