package mqtt

import (
	"context"
	"errors"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// Settle implements [stream.Reader]. What is of an earlier connection comes again.
func (r *reader) Settle(_ context.Context, s stream.Settled) error {
	r.mu.Lock()
	n := r.mu.session
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		d := o.Message.Token.(*delivery)
		switch {
		case d.session != n && d.QoS > 0:
		case o.Err == nil:
			d.settled = true
		default:
			r.keepLocked(d, o)
		}
	}
	acks := r.acksLocked()
	r.mu.Unlock()
	if n == nil || len(acks) == 0 {
		return nil
	}
	return n.send(acks...)
}

// keepLocked holds a delivery that is given back until it is due. The source may have stopped:
// then it comes again with the next connection.
func (r *reader) keepLocked(d *delivery, o *stream.Outcome) {
	again := *d
	if !errors.Is(o.Err, stream.ErrUnused) {
		again.attempt++
	}
	for i, held := range r.mu.unacked {
		if held == d {
			r.mu.unacked[i] = &again
		}
	}
	r.mu.returned.Keep(&again, o.Delay)
}

// acksLocked returns the acknowledgements of what is settled. They have the order of the
// messages, as the protocol demands.
func (r *reader) acksLocked() (acks []*packets.ControlPacket) {
	n := 0
	for _, d := range r.mu.unacked {
		if !d.settled {
			break
		}
		n++
		if d.QoS == 2 {
			acks = append(acks, packet(packets.PUBREC, &packets.Pubrec{PacketID: d.PacketID, Properties: new(packets.Properties)}))
		} else {
			acks = append(acks, packet(packets.PUBACK, &packets.Puback{PacketID: d.PacketID, Properties: new(packets.Properties)}))
		}
	}
	clear(r.mu.unacked[:n])
	r.mu.unacked = r.mu.unacked[n:]
	return acks
}
