package mqtt

import (
	"sync"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/value"
)

// An outgoing is one connection, and what was published on it.
type outgoing struct {
	*session
	room chan struct{} // has one for each record under way
	next uint16        // packet identifier; of the goroutine that writes

	records struct {
		sync.Mutex
		pending map[uint16]*published // nil when the connection has ended
	}
}

// A published record waits to be acknowledged.
type published struct {
	index int
	done  func(i int, receipt value.Value, err error)
}

// publish writes a message when there is room for it.
func (o *outgoing) publish(m *packets.Publish, p *published) error {
	if m.QoS == 0 {
		return o.write(packet(packets.PUBLISH, m))
	}
	select {
	case o.room <- struct{}{}:
	default:
		if err := o.send(); err != nil { // it may make room
			return err
		}
		select {
		case o.room <- struct{}{}:
		case <-o.ended:
			return o.reason()
		}
	}
	if !o.add(m, p) {
		return o.reason()
	}
	if err := o.write(packet(packets.PUBLISH, m)); err != nil && o.take(m.PacketID) != nil {
		return err
	}
	return nil // if the connection has ended meanwhile, done knows
}

// add gives a message an identifier that is free. It is not ok if the connection has ended.
func (o *outgoing) add(m *packets.Publish, p *published) (ok bool) {
	o.records.Lock()
	defer o.records.Unlock()
	if o.records.pending == nil {
		return false
	}
	for {
		if o.next++; o.next == 0 {
			o.next++
		}
		if _, taken := o.records.pending[o.next]; !taken {
			break
		}
	}
	m.PacketID = o.next
	o.records.pending[o.next] = p
	return true
}

func (o *outgoing) finish(id uint16, err error) {
	if p := o.take(id); p != nil {
		<-o.room
		p.done(p.index, value.Null(), err)
	}
}

// take removes a record that waits; nil if it does not any more.
func (o *outgoing) take(id uint16) *published {
	o.records.Lock()
	defer o.records.Unlock()
	p := o.records.pending[id]
	delete(o.records.pending, id)
	return p
}

// fail ends what was not acknowledged.
func (o *outgoing) fail(err error) {
	o.records.Lock()
	pending := o.records.pending
	o.records.pending = nil
	o.records.Unlock()
	for _, p := range pending {
		p.done(p.index, value.Null(), err)
	}
}
