package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A broker is a system in memory that a source reads. With Positions it is a log with a
// committed offset for each lane, else a queue that delivers again what is given back or
// was lost with a connection.
type broker struct {
	traits stream.Traits
	asked  bool // messages whose key is "ask" get the answer
	ends   bool // io.EOF after the last message
	mu     struct {
		sync.Mutex
		changed   chan struct{} // closed when there is more to read
		lanes     map[int32][]*record
		read      map[int32]int // next to read
		committed map[int32]int
		connected int // readers that are connected
		most      int
		connects  int
		refuse    error // of Connect
		cut       bool  // the next call fails
		held      int   // delivered and not settled
		mostHeld  int
		panics    bool // the next Read panics
		stalls    bool // the next Settle waits until its context is done
		marks     []stream.Mark
		outcomes  []stream.Outcome
		closes    int
		host      stream.Host
		answers   []string
	}
}

// A record is a message of the system.
type record struct {
	id      string
	raw     []byte
	key     string
	lane    int32
	offset  int64
	attempt int
	out     bool // delivered
	done    bool
	dead    bool
	settled int
	due     time.Time
}

func newBroker(traits stream.Traits) *broker {
	s := &broker{traits: traits}
	s.mu.changed = make(chan struct{})
	s.mu.lanes = make(map[int32][]*record)
	s.mu.read = make(map[int32]int)
	s.mu.committed = make(map[int32]int)
	return s
}

func (s *broker) change() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// add adds messages with JSON bodies.
func (s *broker) add(lane int32, key string, bodies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, body := range bodies {
		offset := int64(len(s.mu.lanes[lane]) + 1)
		s.mu.lanes[lane] = append(s.mu.lanes[lane], &record{id: fmt.Sprintf("%d/%d", lane, offset), raw: []byte(body), key: key, lane: lane, offset: offset})
	}
	s.change()
}

// lose cuts the connection.
func (s *broker) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.cut = true
	s.change()
}

// settledAll reports whether all messages are.
func (s *broker) settledAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, records := range s.mu.lanes {
		if s.traits.Positions && s.mu.committed[lane] != len(records) {
			return false
		}
		for _, r := range records {
			if !s.traits.Positions && !r.done {
				return false
			}
		}
	}
	return true
}

// source is the kind mem that reads the system.
func (s *broker) source(o stream.Options) *node.Def {
	return stream.Source{
		Kind: "mem", Summary: "Reads memory.", Page: node.Page{Example: "kind: mem\n"}, Traits: s.traits,
		Config: schema.Fields(schema.String("topic"), schema.Group("auth", schema.Fields(schema.String("password").Secret()))),
		Open: func(*node.Init) (stream.Reader, error) {
			if s.asked {
				return asked{&brokerReader{broker: s}}, nil
			}
			if s.traits.Checkpoints {
				return resuming{&brokerReader{broker: s}}, nil
			}
			return &brokerReader{broker: s}, nil
		},
		Ends: func(schema.Config) bool { return s.ends },
	}.Def(o)
}

type brokerReader struct {
	*broker
	up bool
}

func (r *brokerReader) Connect(_ context.Context, h stream.Host) error {
	s := r.broker
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refuse != nil {
		return s.mu.refuse
	}
	s.mu.connects++
	s.mu.connected++
	s.mu.most = max(s.mu.most, s.mu.connected)
	s.mu.cut = false
	s.mu.host, r.up = h, true
	if s.traits.Positions {
		for lane := range s.mu.lanes {
			s.mu.read[lane] = s.mu.committed[lane]
		}
	}
	return nil
}

func (r *brokerReader) lost() error {
	r.mu.connected--
	r.mu.cut, r.up = false, false
	r.redeliver()
	return fmt.Errorf("%w: reset by the test", stream.ErrLost)
}

// redeliver makes the system deliver again what is not settled.
func (r *brokerReader) redeliver() {
	for _, records := range r.mu.lanes {
		for _, rec := range records {
			if rec.out && !rec.done {
				rec.out = false
				rec.attempt++
				r.mu.held--
			}
		}
	}
}

func (r *brokerReader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	s := r.broker
	for {
		s.mu.Lock()
		if s.mu.panics {
			s.mu.panics = false
			_ = r.lost()
			s.mu.Unlock()
			panic("of the reader")
		}
		switch {
		case !r.up:
			s.mu.Unlock()
			return nil, stream.ErrLost
		case s.mu.cut:
			err := r.lost()
			s.mu.Unlock()
			return nil, err
		}
		messages, wait, more := s.next(room)
		changed := s.mu.changed
		s.mu.Unlock()
		if len(messages) > 0 {
			return messages, nil
		}
		if s.ends && !more {
			return nil, io.EOF
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-changed:
		case <-timer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// next returns messages to deliver. The caller holds the lock.
func (s *broker) next(room stream.Room) (messages []stream.Message, wait time.Duration, more bool) {
	now := time.Now()
	bytes := room.Bytes
	take := func(rec *record) {
		rec.out = true
		s.mu.held++
		s.mu.mostHeld = max(s.mu.mostHeld, s.mu.held)
		bytes -= int64(len(rec.raw))
		messages = append(messages, stream.Message{
			Raw: rec.raw, Key: rec.key, Time: time.Unix(1, 0), Lane: rec.lane, Offset: rec.offset, Attempt: rec.attempt, Token: rec,
		})
	}
	for lane := range int32(len(s.mu.lanes)) {
		records := s.mu.lanes[lane]
		if s.traits.Positions {
			for s.mu.read[lane] < len(records) && len(messages) < room.Messages && bytes > 0 {
				rec := records[s.mu.read[lane]]
				s.mu.read[lane]++
				rec.attempt = 0
				take(rec)
			}
			continue
		}
		for s.mu.read[lane] < len(records) && records[s.mu.read[lane]].done {
			s.mu.read[lane]++
		}
		for _, rec := range records[s.mu.read[lane]:] {
			if len(messages) >= room.Messages || bytes <= 0 {
				break
			}
			more = more || !rec.done
			switch {
			case rec.out || rec.done:
			case rec.due.After(now):
				if d := rec.due.Sub(now); wait == 0 || d < wait {
					wait = d
				}
			default:
				take(rec)
			}
		}
	}
	return messages, wait, more
}

func (r *brokerReader) Settle(ctx context.Context, settled stream.Settled) error {
	s := r.broker
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.stalls:
		s.mu.stalls = false
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		_ = r.lost()
		return ctx.Err()
	case !r.up:
		return stream.ErrLost
	case s.mu.cut:
		return r.lost()
	}
	for _, o := range settled.Outcomes {
		rec := o.Message.Token.(*record)
		if !rec.out {
			continue // of an earlier connection
		}
		rec.out = false
		s.mu.held--
		if o.Err == nil {
			rec.settled++
			rec.done = true
			rec.dead = o.DeadLetter
			continue
		}
		if !errors.Is(o.Err, stream.ErrUnused) {
			rec.attempt++
		}
		rec.due = time.Now().Add(o.Delay)
	}
	for _, m := range settled.Marks {
		s.mu.committed[m.Lane] = max(s.mu.committed[m.Lane], int(m.Offset))
	}
	s.mu.marks = append(s.mu.marks, settled.Marks...)
	s.change()
	return nil
}

func (r *brokerReader) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(m.Token.(*record).id))
	b.Set("lane", value.Int(int64(m.Lane)))
}

func (r *brokerReader) Close(context.Context) error {
	s := r.broker
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closes++
	if r.up {
		s.mu.connected--
		r.up = false
		r.redeliver()
	}
	s.change()
	return nil
}

// asked is a reader of messages that expect an answer.
type asked struct{ *brokerReader }

func (r asked) Asked(m *stream.Message) bool { return m.Key == "ask" }

func (r asked) Reply(m *stream.Message, resp node.Response) (send func() error, err error) {
	text := resp.Payload.String()
	if resp.IsError() {
		text = node.Message(resp.Payload.AsError())
	}
	if !r.Asked(m) {
		return nil, nil
	}
	return func() error {
		r.broker.mu.Lock()
		defer r.broker.mu.Unlock()
		r.broker.mu.answers = append(r.broker.mu.answers, m.Token.(*record).id+" "+text)
		return nil
	}, nil
}
