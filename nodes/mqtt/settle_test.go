package mqtt

import (
	"errors"
	"slices"
	"testing"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Acknowledgements have the order of the messages. A message that fails holds back those after
// it, and is read again.
func TestSettle(t *testing.T) {
	r := &reader{most: 10, mostBytes: 1 << 20, clock: node.SystemClock{}, wake: make(chan struct{}, 1)}
	r.begin()
	n := &session{flooded: make(chan struct{}), flood: func() {}}
	r.mu.session = n
	for i := range 4 {
		r.arrive(n, &packets.Publish{PacketID: uint16(i + 1), QoS: byte(1 + i%2)})
	}
	read := r.take(stream.Room{Messages: 10, Bytes: 1 << 20})
	if len(read) != 4 {
		t.Fatalf("got %d messages", len(read))
	}
	settle := func(m stream.Message, err error) (ids []uint16) {
		d := m.Token.(*delivery)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.keepLocked(d, &stream.Outcome{Message: &m, Err: err})
		} else {
			d.settled = true
		}
		for _, ack := range r.acksLocked() {
			switch c := ack.Content.(type) {
			case *packets.Puback:
				ids = append(ids, c.PacketID)
			case *packets.Pubrec:
				ids = append(ids, 100+c.PacketID)
			}
		}
		return ids
	}
	for i, c := range []struct {
		message int
		err     error
		want    []uint16
	}{
		{1, nil, nil},
		{0, nil, []uint16{1, 102}},
		{2, errors.New("not yet"), nil},
		{3, nil, nil},
	} {
		if got := settle(read[c.message], c.err); !slices.Equal(got, c.want) {
			t.Errorf("step %d: acknowledged are %v, want %v", i, got, c.want)
		}
	}
	again := r.take(stream.Room{Messages: 10, Bytes: 1 << 20})
	if len(again) != 1 || again[0].Attempt != 1 || again[0].Token.(*delivery).PacketID != 3 {
		t.Fatalf("returned are %v", again)
	}
	if got := settle(again[0], nil); !slices.Equal(got, []uint16{3, 104}) {
		t.Errorf("after the second attempt: acknowledged are %v", got)
	}
}

// Without room, a message with a qos of 0 is dropped and counted. One that is larger than all
// room comes nevertheless, alone.
func TestRoom(t *testing.T) {
	r := &reader{most: 2, mostBytes: 10, clock: node.SystemClock{}, wake: make(chan struct{}, 1)}
	r.begin()
	n := &session{flooded: make(chan struct{}), flood: func() {}}
	for _, size := range []int{100, 1, 1} {
		r.arrive(n, &packets.Publish{Payload: make([]byte, size)})
	}
	var dropped float64
	r.Counts(func(m node.Metric) { dropped = m.Value })
	if read := r.take(stream.Room{Messages: 10, Bytes: 1 << 20}); len(read) != 1 || dropped != 2 {
		t.Errorf("got %d messages, and %v are dropped", len(read), dropped)
	}
	if r.mu.bytes != 0 {
		t.Errorf("%d bytes are held", r.mu.bytes)
	}
}
