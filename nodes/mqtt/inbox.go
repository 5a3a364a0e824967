package mqtt

import (
	"context"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// receive takes what the broker sends. It blocks while too much waits to be read.
func (r *reader) receive(n *session, p *packets.ControlPacket, suback chan<- *packets.Suback) {
	switch c := p.Content.(type) {
	case *packets.Suback:
		select {
		case <-n.flooded:
			if err := r.refusal(c); err != nil {
				n.end(err)
			}
		default:
		}
		select {
		case suback <- c:
		default: // the broker answers twice
		}
	case *packets.Pubrel: // the message was settled
		if err := n.send(packet(packets.PUBCOMP, &packets.Pubcomp{PacketID: c.PacketID, Properties: new(packets.Properties)})); err != nil {
			n.end(err)
		}
	case *packets.Publish:
		r.arrive(n, c)
	}
}

func (r *reader) arrive(n *session, p *packets.Publish) {
	d := &delivery{Publish: p, session: n, time: r.clock.Now()}
	if p.Duplicate {
		d.attempt = 1
	}
	size := int64(len(p.Payload))
	full := func() bool {
		return !r.mu.hungry && (len(r.mu.waiting) >= r.most || len(r.mu.waiting) > 0 && r.mu.bytes+size > min(r.mostBytes, readAhead))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.QoS == 0 && full() {
		r.mu.dropped++
		return
	}
	for !n.forgotten && full() {
		n.flood()
		r.mu.changed.Wait()
	}
	if n.forgotten {
		return
	}
	r.mu.hungry = false
	r.mu.waiting = append(r.mu.waiting, d)
	r.mu.bytes += size
	if p.QoS > 0 {
		r.mu.unacked = append(r.mu.unacked, d)
	}
	r.signal()
}

// readAhead is how many bytes may wait to be read, at most.
const readAhead = 4 << 20

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // it has one
	}
}

// Read returns what was given back and is due, and then what has come.
func (r *reader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	r.mu.Lock()
	n := r.mu.session
	r.mu.Unlock()
	for {
		if read := r.take(room); len(read) > 0 {
			return read, nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.ended:
			return r.take(room), n.reason()
		}
	}
}

// take returns what waits, and first what is due again.
func (r *reader) take(room stream.Room) (read []stream.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	read = r.mu.returned.Take(&room, (*delivery).message)
	taken := 0
	for _, d := range r.mu.waiting {
		if len(read) >= room.Messages || room.Bytes <= 0 {
			break
		}
		taken++
		r.mu.bytes -= int64(len(d.Payload))
		read = append(read, d.message(&room))
	}
	clear(r.mu.waiting[:taken])
	r.mu.waiting = r.mu.waiting[taken:]
	r.mu.hungry = len(read) == 0
	r.mu.changed.Signal()
	return read
}

func (d *delivery) message(room *stream.Room) stream.Message {
	room.Bytes -= int64(len(d.Payload))
	if d.Payload == nil {
		d.Payload = []byte{}
	}
	return stream.Message{Raw: d.Payload, Time: d.time, Attempt: d.attempt, Token: d}
}
