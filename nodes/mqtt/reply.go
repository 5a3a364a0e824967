package mqtt

import (
	"fmt"
	"strconv"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// Asked implements [stream.Asker].
func (r *reader) Asked(m *stream.Message) bool {
	return m.Token.(*delivery).Properties.ResponseTopic != ""
}

// Reply implements [stream.Replier].
func (r *reader) Reply(m *stream.Message, resp node.Response) (send func() error, err error) {
	d := m.Token.(*delivery)
	if d.Properties.ResponseTopic == "" {
		return nil, nil
	}
	answer := &packets.Publish{Topic: d.Properties.ResponseTopic, Properties: &packets.Properties{CorrelationData: d.Properties.CorrelationData}}
	if err := checkTopic(answer.Topic); err != nil {
		return nil, err
	}
	switch {
	case resp.IsError():
		e := node.Describe(resp.Payload.AsError())
		text, status := "internal error", e.Status
		if e.Public {
			text = node.Message(e)
		}
		if status == 0 {
			status = 500
		}
		answer.Properties.User = []packets.User{{Key: "error", Value: text}, {Key: "status", Value: strconv.Itoa(status)}}
	case !resp.None:
		if answer.Payload, err = encodeAnswer(resp.Payload); err != nil {
			return nil, fmt.Errorf("answer to %s: %w", answer.Topic, err)
		}
	}
	if err := checkSize(answer, d.session.granted.packet); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", answer.Topic, err)
	}
	return func() error { return d.session.send(packet(packets.PUBLISH, answer)) }, nil
}

// encodeAnswer returns a payload as a body: text and binary as they are, all else as JSON.
func encodeAnswer(v value.Value) ([]byte, error) {
	if s, ok := v.AsString(); ok {
		return []byte(s), nil
	}
	if b, ok := v.AsBinary(); ok {
		return b, nil
	}
	return v.AppendJSON(nil)
}
