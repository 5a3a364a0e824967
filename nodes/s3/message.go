package s3

import (
	"strconv"

	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// slabSize is how many tokens, and rows of CSV, are allocated together. Who keeps one of them, as a
// payload does, keeps all.
const slabSize = 8

// messages makes messages of the records that were read.
func (r *reader) messages(o *object) []stream.Message {
	defer clear(r.records)
	r.read = r.read[:0]
	decoder := o.reader.Decoder()
	_, after := o.reader.Offset()
	var last position
	for from := 0; from < len(r.records); from += slabSize {
		tokens := make([]token, min(slabSize, len(r.records)-from))
		for i := range tokens {
			rec, line := &r.records[from+i], after
			if from+i+1 < len(r.records) {
				line = r.records[from+i+1].Line
			}
			last = position{rec.End, line}
			tokens[i] = token{Found: input.Found{Decoder: decoder, Err: rec.Err, Line: rec.Line}, object: o, end: last}
			r.read = append(r.read, stream.Message{Raw: rec.Raw, Key: o.key, Time: o.modified, Lane: o.lane, Offset: rec.Offset, Token: &tokens[i]})
		}
		if decoder != nil && decoder.CSV() {
			for i, rows := 0, decoder.Rows(len(tokens)); i < len(tokens); i++ {
				tokens[i].Row = &rows[i]
			}
		}
	}
	if decoder == nil || !decoder.Whole() {
		input.OwnTexts(r.read)
		o.reader.Return()
	}
	r.advance(o, last)
	return r.read
}

// rows makes messages of rows of a table.
func (r *reader) rows(o *object, next int64, rows []value.Value) []stream.Message {
	messages := make([]stream.Message, len(rows))
	tokens := make([]token, len(rows))
	for i, row := range rows {
		at := next + int64(i)
		tokens[i] = token{Found: input.Found{Line: at + 1}, object: o, end: position{at + 1, at + 2}}
		messages[i] = stream.Message{Body: row, Key: o.key, Time: o.modified, Lane: o.lane, Offset: at, Token: &tokens[i]}
	}
	r.advance(o, tokens[len(tokens)-1].end)
	return messages
}

// whole makes a message of an object that is not read.
func (r *reader) whole(o *object) []stream.Message {
	end := position{1, 2}
	r.mu.Lock()
	o.end, o.done = end, true
	r.mu.done += o.size
	r.mu.Unlock()
	body := objectShape.Map(value.String(r.settings.bucket), value.String(o.key), value.Int(o.size), value.String(o.etag), value.Time(o.modified))
	return []stream.Message{{Body: body, Key: o.key, Time: o.modified, Lane: o.lane, Token: &token{Found: input.Found{Line: 1}, object: o, end: end}}}
}

var objectShape = value.NewShape("bucket", "key", "size", "etag", "modified")

// advance notes how far an object was read.
func (r *reader) advance(o *object, end position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.end = end
	if o.body != nil {
		r.mu.done += o.body.took()
	}
}

// Fields adds the place of a record.
func (r *reader) Fields(m *stream.Message, b *value.MapBuilder) {
	tok := m.Token.(*token)
	o := tok.object
	b.Set("id", value.String(o.key+"@"+o.etag+":"+strconv.FormatInt(m.Offset, 10)))
	b.Set("bucket", value.String(r.settings.bucket))
	b.Set("etag", value.String(o.etag))
	b.Set("line", value.Int(tok.Line))
	b.Set("offset", value.Int(m.Offset))
}

// Decode makes the body of a record.
func (r *reader) Decode(m *stream.Message) (value.Value, error) {
	tok := m.Token.(*token)
	return tok.Found.Decode(m.Raw, "s3://"+r.settings.bucket+"/"+tok.object.key)
}
