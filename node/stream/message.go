package stream

import (
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A message is one that a consumer holds. It is the source of its payload's fields, which
// are made when something reads them: possibly long after the message was settled. So
// it is not used again for another one.
type message struct {
	Message  // without Raw and Body; immutable, so that Fields may read it at any time
	consumer *consumer

	raw    []byte // until it is decoded
	body   value.Value
	broken error // why it is undecodable

	key  string     // of its queue, if order is by an expression
	lazy value.Lazy // its payload, for the first attempt

	// Guarded by the consumer, except for size, which does not change, and replied, which
	// is of the worker that has the message. They are together, as the processor reads
	// what is next to each other: messages are settled long after they were read.
	receipt  *Message // what settles it: the latest delivery
	err      error    // of the last attempt
	failed   int      // attempts here that failed
	size     int64
	large    int64 // bytes of a large body that was decoded
	state    messageState
	prepared bool // decoded, and its key is known
	opened   bool // body is the payload of a message that was a dead letter
	begun    bool
	again    bool // it has begun more than once
	handoff  handoff
	stuck    bool
	replied  bool
	lane     *lane
	queue    *keyQueue
	next     *message // in its queue
	before   *message // among those held
	after    *message
}

// A messageState is where a message is.
type messageState uint8

const (
	stateQueued messageState = iota // has not begun, or waits for its next attempt
	stateRuns                       // a process has it, or a task that waits
	stateGone                       // settled, given back or forgotten
)

// A handoff is where a message is whose queue need not wait for its end.
type handoff uint8

const (
	handoffOpen     handoff = iota // its process has not ended, as far as is known
	handoffQueued                  // a sink has it in its queue
	handoffAnswered                // its first process has ended
)

// here reports whether the message is held.
func (m *message) here() bool { return m.state != stateGone }

// queued reports whether the message is held, and no process has it.
func (m *message) queued() bool { return m.state == stateQueued }

// streamMessage shows a sink that a payload is a message of a source.
func (m *message) streamMessage() {}

// Fields implements [value.FieldSource] for the first attempt.
func (m *message) Fields() []value.Field { return m.fields(m.Attempt) }

// Field implements [value.FieldFinder] for what most expressions read.
func (m *message) Field(name string) (field value.Value, ok bool) {
	switch {
	case m.opened:
		return value.Value{}, false
	case name == "body":
		return m.body, true
	case name == "key" && m.Key != "":
		return value.String(m.Key), true
	}
	return value.Value{}, false
}

func (m *message) fields(attempt int) []value.Field {
	var b value.MapBuilder
	if m.opened {
		for name, v := range m.body.Fields() {
			b.Set(name, v)
		}
		b.Set("attempt", value.Int(int64(attempt)))
		return b.Fields()
	}
	b.Grow(12)
	b.Set("body", m.body)
	if m.Key != "" {
		b.Set("key", value.String(m.Key))
	}
	if !m.Time.IsZero() {
		b.Set("time", value.Time(m.Time))
	}
	b.Set("attempt", value.Int(int64(attempt)))
	m.consumer.reader.Fields(&m.Message, &b)
	return b.Fields()
}

// A laterAttempt is the source of the fields of a message that is tried again here.
type laterAttempt struct {
	*message
	failed int
}

// Fields implements [value.FieldSource].
func (a *laterAttempt) Fields() []value.Field { return a.message.fields(a.Attempt + a.failed) }

// payload returns the map of the message. The caller has the message for an attempt.
func (m *message) payload() value.Value {
	size, depth := m.body.Size()+mapOverhead, max(m.body.Depth()+1, ownDepth)
	if m.failed > 0 {
		return value.LazyMap(&laterAttempt{m, m.failed}, size, depth)
	}
	return m.lazy.Map(m, size, depth)
}

const (
	mapOverhead = 512 // bytes of a payload's fields other than body
	ownDepth    = 16  // how deep the fields of a system may nest
)

// decode makes the body, with whole for what a decoder gets. One goroutine calls it.
func (m *message) decode(how string, whole *Message) {
	if m.consumer.settings.letters && !m.opened {
		m.open(how, whole)
	} else if m.raw != nil {
		m.decodeRaw(how, whole)
	}
}

func (m *message) decodeRaw(how string, whole *Message) {
	raw := m.raw
	m.raw = nil
	var err error
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while decoding: %v", v)
		}
		if err != nil {
			m.body = asText(raw)
			m.broken = undecodable(err)
		}
	}()
	if decoder, ok := m.consumer.reader.(Decoder); ok {
		*whole = m.Message
		whole.Raw = raw
		m.body, err = decoder.Decode(whole)
	} else {
		m.body, err = decodeAs(how, raw)
	}
}

// decodeAs makes a body as the field decode says. It takes ownership of the bytes, unless
// there is an error.
func decodeAs(how string, raw []byte) (value.Value, error) {
	switch how {
	case "json":
		return value.ParseJSONWith(raw, value.JSONOptions{OnDemand: true})
	case "text":
		if !utf8.Valid(raw) {
			return value.Value{}, errors.New("it is not text in UTF-8; decode: raw takes any bytes")
		}
		return asText(raw), nil
	}
	return value.Binary(raw), nil
}

// codeUndecodable is the code of a message that has no body.
const codeUndecodable = "undecodable"

func undecodable(err error) error {
	return &node.Error{Err: fmt.Errorf("undecodable: %w", err), Status: 422, Code: codeUndecodable}
}

// asText returns bytes as text, or as they are. It takes ownership.
func asText(raw []byte) value.Value {
	if !utf8.Valid(raw) {
		return value.Binary(raw)
	}
	return value.String(unsafe.String(unsafe.SliceData(raw), len(raw)))
}

// deadLetter returns what the port error gets.
func (m *message) deadLetter(err error) error {
	letter := *node.Describe(err)
	letter.Data = m.payload()
	letter.Letter = m.letter(&letter)
	if letter.Node.Kind != "" { // the node of the last failure is in the message
		letter.Err = errors.New(letter.Error())
		letter.Node = node.Ref{}
	}
	letter.RetryAfter = 0
	return &letter
}
