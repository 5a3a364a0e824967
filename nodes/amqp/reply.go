package amqp

import (
	"errors"
	"fmt"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// Headers of an answer that is an error.
const (
	errorHeader  = "error"
	statusHeader = "status"
)

// Asked implements [stream.Asker].
func (r *reader) Asked(m *stream.Message) bool { return m.Token.(*delivery).ReplyTo != "" }

// Reply implements [stream.Replier]. Answers have a channel of their own: an address that
// the broker refuses ends it, and must not end the consumer.
func (r *reader) Reply(m *stream.Message, resp node.Response) (send func() error, err error) {
	t := m.Token.(*delivery)
	if t.ReplyTo == "" {
		return nil, nil
	}
	if len(t.ReplyTo) > longestName {
		return nil, node.Unusable("", errors.New("the address of the answer is too long"))
	}
	answer := amqp.Publishing{CorrelationId: t.CorrelationId}
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
		answer.Headers = amqp.Table{errorHeader: text, statusHeader: strconv.Itoa(status)}
	case !resp.None:
		if answer.Body, answer.ContentType, err = encodeAnswer(resp.Payload); err != nil {
			return nil, fmt.Errorf("answer to %s: %w", t.ReplyTo, err)
		}
	}
	return func() error { return r.publish(t.link, t.ReplyTo, answer) }, nil
}

// publish sends an answer. With the connection that had the message, the message comes again.
func (r *reader) publish(l *link, to string, answer amqp.Publishing) error {
	r.mu.Lock()
	current, replies := r.mu.link, r.mu.replies
	r.mu.Unlock()
	if current != l {
		return stream.ErrLost
	}
	if replies.IsClosed() {
		var err error
		if replies, err = l.conn.Channel(); err != nil {
			return r.settings.lostError(err)
		}
		r.mu.Lock()
		if r.mu.link == l {
			r.mu.replies = replies
		}
		r.mu.Unlock()
	}
	return replies.Publish("", to, false, false, answer)
}

// encodeAnswer returns a payload as a body: text and binary as they are, all else as JSON.
func encodeAnswer(v value.Value) (body []byte, contentType string, err error) {
	if s, ok := v.AsString(); ok {
		return []byte(s), "text/plain", nil
	}
	if b, ok := v.AsBinary(); ok {
		return b, "application/octet-stream", nil
	}
	body, err = v.AppendJSON(nil)
	return body, "application/json", err
}
