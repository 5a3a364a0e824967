package recent

import (
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// Limits of the packets of a node.
const (
	maxPackets = 16       // of a port and direction
	maxPace    = 20       // that are kept in a second, of a port and direction
	maxPorts   = 64       // ports and directions
	maxPayload = 32 << 10 // bytes; a larger payload is not kept
)

// A Direction is what became of a packet at a node.
type Direction uint8

// The directions.
const (
	Received Direction = iota // at an in-port
	Sent                      // on an out-port
	Answered                  // the response to what came to an in-port, or to what a trigger began with
)

// A Packet is one that came to a node or was sent by it.
type Packet struct {
	Time      time.Time
	Process   string // its id
	Direction Direction
	Port      int          // of the direction, as in [observe.Packet]
	Size      int          // bytes of the payload
	Payload   *value.Value // nil if it is too large to be kept
	None      bool         // a response without a payload
	Replayed  bool         // as in [observe.Packet]
}

// Packets looks at a node, by its id, and returns what came to it and what it sent since
// a client began to look, the newest first: the last sixteen of each port, of at most 20
// a second. Skipped is how many were not kept because of that pace.
func (r *Recent) Packets(id string) (kept []Packet, skipped uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, 0, nil
	}
	if r.taps[id] == nil && len(r.taps) >= maxTaps {
		r.dropTap()
	}
	var l *looked[*tap]
	l, err = look(r, r.taps[id], func() (*tap, *observe.Observer, *observe.Recorder) {
		t := &tap{rings: make(map[at]*ring)}
		return t, t.observer(id), nil
	}, func() {
		if r.taps[id] == l {
			delete(r.taps, id)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	r.taps[id] = l
	kept, skipped = l.what.packets()
	return kept, skipped, nil
}

// dropTap ends the look that is the longest ago.
func (r *Recent) dropTap() {
	var oldest string
	for id, l := range r.taps {
		if oldest == "" || l.until.Before(r.taps[oldest].until) {
			oldest = id
		}
	}
	r.taps[oldest].end()
	delete(r.taps, oldest)
}

// A tap keeps the last packets of a node.
type tap struct {
	mu      sync.Mutex
	rings   map[at]*ring
	skipped uint64
}

type at struct {
	direction Direction
	port      int
}

type ring struct {
	packets []Packet // the oldest first
	since   time.Time
	n       int // that came since, within a second
}

// allows reports whether one more packet is kept.
func (r *ring) allows(now time.Time) bool {
	if now.Sub(r.since) >= time.Second {
		r.since, r.n = now, 0
	}
	r.n++
	return r.n <= maxPace
}

func (t *tap) observer(id string) *observe.Observer {
	return &observe.Observer{
		Filter:   func(ref node.Ref) bool { return ref.ID == id },
		Received: func(p observe.Packet) { t.add(Received, p, p.Payload, false) },
		Sent:     func(p observe.Packet) { t.add(Sent, p, p.Payload, false) },
		Answered: func(a observe.Answer) { t.add(Answered, a.Packet, a.Response.Payload, a.Response.None) },
	}
}

func (t *tap) add(d Direction, p observe.Packet, payload value.Value, none bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.rings[at{d, p.Port}]
	if to == nil && len(t.rings) < maxPorts {
		to = new(ring)
		t.rings[at{d, p.Port}] = to
	}
	now := time.Now()
	if to == nil || !to.allows(now) {
		t.skipped++
		return
	}
	kept := Packet{Time: now, Process: p.Process.ID(), Direction: d, Port: p.Port, None: none, Replayed: p.Replayed}
	if !none {
		kept.Size = payload.Size()
		if kept.Size <= maxPayload {
			kept.Payload = &payload
		}
	}
	if len(to.packets) == maxPackets {
		to.packets = slices.Delete(to.packets, 0, 1)
	}
	to.packets = append(to.packets, kept)
}

func (t *tap) packets() (all []Packet, skipped uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rings {
		all = append(all, r.packets...)
	}
	slices.SortStableFunc(all, func(a, b Packet) int { return b.Time.Compare(a.Time) })
	return all, t.skipped
}
