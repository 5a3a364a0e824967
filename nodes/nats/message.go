package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// ackMeta is what the reply subject of a JetStream message says.
type ackMeta struct {
	stream    string
	sequence  uint64
	delivered int // how often, this time included
	time      time.Time
}

// ackPrefix begins the reply subject of every JetStream message.
const ackPrefix = "$JS.ACK."

// parseAck reads a reply subject. Servers make it of nine tokens, or, with the domain and
// the account in front of the stream, of eleven and more.
func parseAck(reply string) (m ackMeta, ok bool) {
	rest, ok := strings.CutPrefix(reply, ackPrefix)
	if !ok {
		return m, false
	}
	if n := strings.Count(rest, "."); n >= 8 {
		_, rest, _ = strings.Cut(rest, ".")
		_, rest, _ = strings.Cut(rest, ".")
	} else if n != 6 {
		return m, false
	}
	var tokens [6]string // stream, consumer, delivered, sequence, its number for the consumer, time
	for i := range tokens {
		tokens[i], rest, ok = strings.Cut(rest, ".")
		if !ok || tokens[i] == "" {
			return m, false
		}
	}
	delivered, err1 := strconv.ParseInt(tokens[2], 10, 32)
	sequence, err2 := strconv.ParseUint(tokens[3], 10, 64)
	at, err3 := strconv.ParseInt(tokens[5], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || delivered < 1 {
		return m, false
	}
	return ackMeta{tokens[0], sequence, int(delivered), time.Unix(0, at).UTC()}, true
}

// Headers that instruct a server what to do with a message. They are not part of what a
// message says: passed on, they would be obeyed again.
var instructions = map[string]bool{
	jetstream.ExpectedStreamHeader: true, jetstream.ExpectedLastSeqHeader: true, jetstream.ExpectedLastSubjSeqHeader: true,
	jetstream.ExpectedLastSubjSeqSubjHeader: true, jetstream.ExpectedLastMsgIDHeader: true, jetstream.MsgRollup: true, jetstream.MsgTTLHeader: true,
}

// headerValue returns a header as workflows see it: a map of texts, or of lists of texts
// where a name occurs several times; null without.
func headerValue(h nats.Header) value.Value {
	if len(h) == 0 {
		return value.Null()
	}
	fields := make([]value.Field, 0, len(h))
	for name, texts := range h {
		if instructions[name] || len(texts) == 0 {
			continue
		}
		v := value.String(texts[0])
		if len(texts) > 1 {
			list := make([]value.Value, len(texts))
			for i := range texts {
				list[i] = value.String(texts[i])
			}
			v = value.List(list...)
		}
		fields = append(fields, value.Field{Name: name, Value: v})
	}
	return value.UniqueMap(fields)
}

// headerOf is the opposite of headerValue. room is for how many names more there will be.
func headerOf(v value.Value, room int) (nats.Header, error) {
	if v.IsNull() {
		return make(nats.Header, room), nil
	}
	if v.Kind() != value.KindMap {
		return nil, badHeader("header: want a map, got %s", v.Kind())
	}
	h := make(nats.Header, v.Len()+room)
	for name, text := range v.Fields() {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ':' || r >= 0x7f }) {
			return nil, badHeader("header: %q is not the name of one", name)
		}
		if text.Kind() != value.KindList {
			h[name] = []string{text.String()}
			continue
		}
		for _, e := range text.Elems() {
			h[name] = append(h[name], e.String())
		}
	}
	return h, nil
}

func badHeader(format string, args ...any) error {
	return node.Unusable("", fmt.Errorf(format, args...))
}

// checkSubject returns an error if a subject, which a template may have made, is not one
// to publish to.
func checkSubject(s string) error {
	if s == "" || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return node.Unusable("", fmt.Errorf("%q is not a subject", s))
	}
	for rest := s; rest != ""; {
		var token string
		if token, rest, _ = strings.Cut(rest, "."); token == "*" || token == ">" {
			return node.Unusable("", fmt.Errorf("%q has wildcards, and messages need one subject", s))
		}
	}
	return nil
}

// encodeBody returns a payload as the body of a message: text and binary as they are, all
// else as JSON.
func encodeBody(v value.Value) ([]byte, error) {
	if s, ok := v.AsString(); ok {
		return []byte(s), nil
	}
	if b, ok := v.AsBinary(); ok {
		return b, nil
	}
	return v.AppendJSON(nil)
}

// An answer to a published message is {"stream":"S","seq":7} if JetStream has it.
type pubAck struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// noRoom reports whether a stream or its server has no room or no leader at the moment, so
// that it takes no message.
func noRoom(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case 10008, 10009, 10118: // no leader: JSClusterNotAvail, JSClusterNotLeader, JSStreamOffline
		return true
	case 10023, 10028, 10047: // JSInsufficientResources, JSMemoryResourcesExceeded, JSStorageResourcesExceeded
		return true
	case 10077: // JSStreamStoreFailed; a limit of one subject is a matter of the message
		return e.Description == "maximum messages exceeded" || e.Description == "maximum bytes exceeded"
	}
	return false
}

// parsePubAck reads the answer to a published message.
func parsePubAck(data []byte) (ack pubAck, err error) {
	if ack, ok := plainPubAck(data); ok {
		return ack, nil
	}
	if err := json.Unmarshal(data, &ack); err != nil || ack.Error == nil && ack.Stream == "" {
		return ack, errors.New("the answer is not that of JetStream: something else has subscribed to the subject")
	}
	if e := ack.Error; e != nil {
		err := errors.New(e.Description)
		switch {
		case e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence, e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return ack, &node.Error{Err: err, Status: 409}
		case e.ErrorCode == 10158: // JSStreamDuplicateMessageConflict: the same id is being stored, which may fail
			return ack, &node.Error{Err: err, Status: 503}
		case e.Code >= 400 && e.Code < 500 && e.Code != 429 && !noRoom(e): // 429 is JSStreamTooManyRequests
			return ack, node.Unusable("", err)
		}
		return ack, &node.Error{Err: err, Status: e.Code, Outage: noRoom(e)}
	}
	return ack, nil
}

// plainPubAck reads the usual answer, {"stream":"S","seq":7} with or without spaces: a
// twentieth of the time that encoding/json takes.
func plainPubAck(data []byte) (ack pubAck, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return ack, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || bytes.IndexByte(name, '\\') >= 0 {
		return ack, false
	}
	if rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, ", "), []byte(`"seq":`)); !ok {
		return ack, false
	}
	digits, ok := bytes.CutSuffix(bytes.TrimLeft(rest, " "), []byte(`}`))
	if !ok {
		return ack, false
	}
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return ack, false
	}
	return pubAck{Stream: string(name), Sequence: seq}, true
}

var (
	receiptShape   = value.NewShape("stream", "sequence")
	duplicateShape = value.NewShape("stream", "sequence", "duplicate")
)

// receipt returns where a message is.
func (a *pubAck) receipt() value.Value {
	if a.Duplicate {
		return duplicateShape.Map(value.String(a.Stream), value.Uint(a.Sequence), value.Bool(true))
	}
	return receiptShape.Map(value.String(a.Stream), value.Uint(a.Sequence))
}
