package mqtt

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/eclipse/paho.golang/packets"
	packets3 "github.com/eclipse/paho.mqtt.golang/packets"
)

// A wire reads and writes packets. Sessions know those of MQTT 5 alone; for 3.1.1 they are
// translated.
type wire interface {
	read(r *bufio.Reader) (*packets.ControlPacket, error)
	write(w io.Writer, p *packets.ControlPacket) error
}

type wire5 struct{}

func (wire5) read(r *bufio.Reader) (*packets.ControlPacket, error) { return packets.ReadPacket(r) }

func (wire5) write(w io.Writer, p *packets.ControlPacket) error {
	_, err := p.WriteTo(w)
	return err
}

type wire3 struct{}

func (wire3) read(r *bufio.Reader) (*packets.ControlPacket, error) {
	p, err := packets3.ReadPacket(r)
	if err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case *packets3.ConnackPacket:
		return packet(packets.CONNACK, &packets.Connack{Properties: new(packets.Properties), ReasonCode: connackReasons[p.ReturnCode], SessionPresent: p.SessionPresent}), nil
	case *packets3.PublishPacket:
		return packet(packets.PUBLISH, &packets.Publish{
			Payload: p.Payload, Topic: p.TopicName, Properties: new(packets.Properties), PacketID: p.MessageID, QoS: p.Qos, Duplicate: p.Dup, Retain: p.Retain,
		}), nil
	case *packets3.PubackPacket:
		return packet(packets.PUBACK, &packets.Puback{PacketID: p.MessageID}), nil
	case *packets3.PubrecPacket:
		return packet(packets.PUBREC, &packets.Pubrec{PacketID: p.MessageID}), nil
	case *packets3.PubrelPacket:
		return packet(packets.PUBREL, &packets.Pubrel{PacketID: p.MessageID}), nil
	case *packets3.PubcompPacket:
		return packet(packets.PUBCOMP, &packets.Pubcomp{PacketID: p.MessageID}), nil
	case *packets3.SubackPacket:
		return packet(packets.SUBACK, &packets.Suback{Properties: new(packets.Properties), PacketID: p.MessageID, Reasons: p.ReturnCodes}), nil
	case *packets3.PingrespPacket:
		return packet(packets.PINGRESP, new(packets.Pingresp)), nil
	}
	return nil, fmt.Errorf("a packet that no broker sends: %s", p)
}

// connackReasons are the return codes of 3.1.1 as those of 5.
var connackReasons = [256]byte{1: packets.ConnackUnsupportedProtocolVersion, 2: packets.ConnackInvalidClientID, 3: packets.ConnackServerUnavailable, 4: packets.ConnackBadUsernameOrPassword, 5: packets.ConnackNotAuthorized}

func (wire3) write(w io.Writer, p *packets.ControlPacket) error {
	switch c := p.Content.(type) {
	case *packets.Connect:
		to := packets3.NewControlPacket(packets3.Connect).(*packets3.ConnectPacket)
		to.ProtocolName, to.ProtocolVersion, to.CleanSession, to.Keepalive, to.ClientIdentifier = "MQTT", 4, c.CleanStart, c.KeepAlive, c.ClientID
		to.UsernameFlag, to.Username, to.PasswordFlag, to.Password = c.UsernameFlag, c.Username, c.PasswordFlag, c.Password
		return to.Write(w)
	case *packets.Publish:
		to := packets3.NewControlPacket(packets3.Publish).(*packets3.PublishPacket)
		to.TopicName, to.Payload, to.MessageID, to.Qos, to.Retain, to.Dup = c.Topic, c.Payload, c.PacketID, c.QoS, c.Retain, c.Duplicate
		return to.Write(w)
	case *packets.Puback:
		to := packets3.NewControlPacket(packets3.Puback).(*packets3.PubackPacket)
		to.MessageID = c.PacketID
		return to.Write(w)
	case *packets.Pubrec:
		to := packets3.NewControlPacket(packets3.Pubrec).(*packets3.PubrecPacket)
		to.MessageID = c.PacketID
		return to.Write(w)
	case *packets.Pubrel:
		to := packets3.NewControlPacket(packets3.Pubrel).(*packets3.PubrelPacket)
		to.MessageID = c.PacketID
		return to.Write(w)
	case *packets.Pubcomp:
		to := packets3.NewControlPacket(packets3.Pubcomp).(*packets3.PubcompPacket)
		to.MessageID = c.PacketID
		return to.Write(w)
	case *packets.Subscribe:
		to := packets3.NewControlPacket(packets3.Subscribe).(*packets3.SubscribePacket)
		to.MessageID = c.PacketID
		for _, s := range c.Subscriptions {
			to.Topics, to.Qoss = append(to.Topics, s.Topic), append(to.Qoss, s.QoS)
		}
		return to.Write(w)
	case *packets.Pingreq:
		return packets3.NewControlPacket(packets3.Pingreq).Write(w)
	case *packets.Disconnect:
		return packets3.NewControlPacket(packets3.Disconnect).Write(w)
	}
	return fmt.Errorf("a packet that MQTT 3.1.1 does not have: %s", p)
}

// checkFrame looks at the start of the next packet. The libraries take memory for any length, and
// a peer that does not speak MQTT can say anything.
func checkFrame(r *bufio.Reader) error {
	for n := 2; n <= 5; n++ { // a type, and a length of 1 to 4 bytes
		head, err := r.Peek(n)
		if err != nil {
			return err
		}
		if kind := head[0] >> 4; kind == 0 || kind == packets.PUBLISH && head[0]&6 == 6 {
			return errors.New("what answers is not a broker of MQTT")
		}
		if head[n-1] < 0x80 {
			return nil
		}
	}
	return errors.New("what answers is not a broker of MQTT")
}

// packet returns a packet of a type.
func packet(kind byte, content packets.Packet) *packets.ControlPacket {
	p := &packets.ControlPacket{Content: content, FixedHeader: packets.FixedHeader{Type: kind}}
	if kind == packets.PUBREL || kind == packets.SUBSCRIBE {
		p.Flags = 2
	}
	return p
}
