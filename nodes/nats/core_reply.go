package nats

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Headers of an answer that is an error, as services of NATS send them.
const (
	errorHeader  = "Nats-Service-Error"
	statusHeader = "Nats-Service-Error-Code"
)

// Reply implements [stream.Replier].
func (r *coreReader) Reply(m *stream.Message, resp node.Response) (send func() error, err error) {
	a := m.Token.(*arrival)
	if a.Of.Reply == "" {
		return nil, nil
	}
	answer := &nats.Msg{Subject: a.Of.Reply}
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
		answer.Header = nats.Header{errorHeader: {text}, statusHeader: {strconv.Itoa(status)}}
	case !resp.None:
		body, err := encodeBody(resp.Payload)
		if err != nil {
			return nil, fmt.Errorf("answer to %s: %w", a.Of.Subject, err)
		}
		answer.Data = body
	}
	return func() error { return r.publish(answer) }, nil
}

func (r *coreReader) publish(answer *nats.Msg) error {
	r.mu.Lock()
	conn := r.mu.conn
	r.mu.Unlock()
	if conn == nil {
		return stream.ErrLost
	}
	return conn.PublishMsg(answer)
}

// drops returns what the library dropped, because receive was not called in time.
func drops(subs []*nats.Subscription) (n uint64) {
	for _, sub := range subs {
		if dropped, err := sub.Dropped(); err == nil {
			n += uint64(dropped)
		}
	}
	return n
}
