package stream

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// letter returns what a dead letter has besides its message: when and where it has
// failed, how often, and which values JSON does not have. err is the last failure.
func (m *message) letter(err *node.Error) value.Value {
	var b value.MapBuilder
	b.Set("source", value.String(m.consumer.source.Kind))
	if err.Node.Kind != "" {
		b.Set("failed", value.String(err.Node.String()))
		b.Set("place", value.String(err.At().String()))
	}
	b.Set("attempts", value.Int(int64(m.failed+m.Attempt)))
	b.Set("time", value.Time(m.consumer.clock.Now()))
	var found value.MapBuilder
	typesOf(&found, "", err.Data.Without("time"))
	if types := found.Build(); types.Len() > 0 {
		b.Set("types", types)
	}
	return b.Build()
}

// typesOf notes the types of values that JSON does not have, by JSON Pointer (RFC 6901).
func typesOf(types *value.MapBuilder, path string, v value.Value) {
	switch v.Kind() {
	case value.KindMap:
		for name, field := range v.Fields() {
			typesOf(types, path+"/"+pointer.Replace(name), field)
		}
	case value.KindList:
		for i, item := range v.Elems() {
			typesOf(types, path+"/"+strconv.Itoa(i), item)
		}
	case value.KindFloat:
		text, err := v.AppendJSON(nil)
		if err != nil { // a sink says so
			return
		}
		if again, err := value.ParseJSON(text); err == nil && again.Kind() == value.KindFloat {
			return
		}
		fallthrough
	case value.KindBinary, value.KindTime, value.KindDuration:
		types.Set(path, value.String(v.Kind().String()))
	}
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// restore returns a value that was JSON with the types that it had.
func restore(v value.Value, path string, types value.Value) (value.Value, error) {
	if t, ok := types.Get(path); ok {
		return retype(v, t)
	}
	var errs []error
	part := func(name string, v value.Value) value.Value {
		v, err := restore(v, path+"/"+pointer.Replace(name), types)
		errs = append(errs, err)
		return v
	}
	switch v.Kind() {
	case value.KindMap:
		var b value.MapBuilder
		for name, field := range v.Fields() {
			b.Set(name, part(name, field))
		}
		v = b.Build()
	case value.KindList:
		items := make([]value.Value, 0, v.Len())
		for i, item := range v.Elems() {
			items = append(items, part(strconv.Itoa(i), item))
		}
		v = value.List(items...)
	}
	return v, errors.Join(errs...)
}

// retype returns a value as the type of that name. One that was edited in the file stays as
// it is, if it has another form.
func retype(v, t value.Value) (value.Value, error) {
	name, _ := t.AsString()
	text, isText := v.AsString()
	switch {
	case name == value.KindFloat.String():
		if f, ok := v.AsFloat(); ok {
			return value.Float(f), nil
		}
	case !isText:
	case name == value.KindBinary.String():
		b, err := base64.StdEncoding.DecodeString(text)
		return value.Binary(b), err
	case name == value.KindTime.String():
		at, err := time.Parse(time.RFC3339Nano, text)
		return value.Time(at), err
	case name == value.KindDuration.String():
		d, err := time.ParseDuration(text)
		return value.Duration(d), err
	}
	return v, nil
}

var errNoLetter = errors.New("it is not a dead letter, which is a map with message, and data with a body")

// open makes the message of a dead letter of its body: with the payload that it had, but
// its attempts are counted from 0 again.
func (m *message) open(how string, whole *Message) {
	if m.raw != nil {
		m.decodeRaw("json", whole)
	}
	m.opened = true
	err := m.broken
	if err == nil {
		err = m.openBody(how)
	}
	if err == nil {
		return
	}
	if m.broken = err; node.Describe(err).Code != codeUndecodable {
		m.broken = undecodable(err)
	}
	if data, ok := m.body.Get("data"); ok && data.Kind() == value.KindMap {
		m.body = data
		return
	}
	var b value.MapBuilder // something else, from this system
	b.Set("body", m.body)
	m.consumer.reader.Fields(&m.Message, &b)
	m.body = b.Build()
}

func (m *message) openBody(how string) error {
	reason, _ := m.body.Get("message")
	why, isText := reason.AsString()
	data, _ := m.body.Get("data")
	if _, ok := data.Get("body"); !ok || !isText {
		return errNoLetter
	}
	about, _ := m.body.Get("letter")
	if types, ok := about.Get("types"); ok {
		var err error
		if data, err = restore(data, "", types); err != nil {
			return err
		}
	}
	if at, ok := timeOf(data); ok {
		data = data.With("time", at)
	}
	code, _ := m.body.Get("code")
	if text, _ := code.AsString(); text == codeUndecodable {
		body, _ := data.Get("body")
		raw, ok := body.AsBinary()
		if text, isText := body.AsString(); isText {
			raw, ok = []byte(text), true
		}
		switch {
		case !ok: // it was corrected
		case how == "": // the source has a format of its own
			return errors.New(strings.TrimPrefix(why, "undecodable: "))
		default:
			decoded, err := decodeAs(how, raw)
			if err != nil {
				return err
			}
			data = data.With("body", decoded)
		}
	}
	m.body = data
	return nil
}

// timeOf returns the time of a message, which JSON has as text.
func timeOf(data value.Value) (value.Value, bool) {
	field, _ := data.Get("time")
	text, _ := field.AsString()
	at, err := time.Parse(time.RFC3339Nano, text)
	return value.Time(at), err == nil
}
