package nats

import (
	"context"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// schedule makes tick run after half of the time in which a message must be settled.
func (r *jetStreamReader) schedule() {
	r.progress.Lock()
	defer r.progress.Unlock()
	if r.progress.closed {
		return
	}
	r.progress.running.Add(1)
	r.progress.stop = r.clock.AfterFunc(r.spec.ackWait/2, func(context.Context) {
		defer r.progress.running.Done()
		r.tick()
		r.schedule()
	})
}

// tick reports to the server that work on all messages in flight is in progress.
func (r *jetStreamReader) tick() {
	var replies []string
	r.host.InFlight(func(m *stream.Message) { replies = append(replies, m.Token.(*delivery).msg.Reply) })
	if conn := r.conn.Load(); conn != nil {
		for _, reply := range replies {
			if conn.Publish(reply, []byte("+WPI")) != nil {
				break // Read sees the loss
			}
		}
	}
}
