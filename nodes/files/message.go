package files

import (
	"strconv"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A token is what a message knows of its place.
type token struct {
	input.Found
	tail  *tail
	end   position
	place *place // at or before end; of several tokens
	path  string
}

// slabSize is how many tokens, and rows of CSV, are allocated together. Who keeps one of
// them, as a payload does, keeps all.
const slabSize = 8

// messages makes messages of the records of a file.
func (s *source) messages(t *tail, records []format.Record, decoder *format.Decoder) []stream.Message {
	s.read = s.read[:0]
	csv := decoder != nil && decoder.CSV()
	whole := decoder != nil && decoder.Whole()
	_, after := t.reader.Offset()
	var last position
	proof, read := &place{}, t.at()
	*proof = t.place
	for from := 0; from < len(records); from += slabSize {
		tokens := make([]token, min(slabSize, len(records)-from))
		for i := range tokens {
			r, line := &records[from+i], after
			if from+i+1 < len(records) {
				line = records[from+i+1].Line
			}
			last = position{r.End, line}
			if proof.at == 0 || from+i+1 == len(records) {
				if at := t.noted(*proof, r.End, read); at != *proof {
					proof = &at
				}
			}
			tokens[i] = token{Found: input.Found{Decoder: decoder, Err: r.Err, Line: r.Line}, tail: t, end: last, place: proof, path: t.path}
			s.read = append(s.read, stream.Message{Raw: r.Raw, Lane: t.lane, Offset: r.Offset, Token: &tokens[i]})
		}
		if !whole {
			input.OwnTexts(s.read[from:])
		}
		if csv {
			rows := decoder.Rows(len(tokens))
			for i := range tokens {
				tokens[i].Row = &rows[i]
			}
		}
	}
	if !whole {
		t.reader.Return()
	}
	s.advance(t, last, read, *proof)
	return s.read
}

// rows makes messages of rows of a table.
func (s *source) rows(t *tail, next int64, rows []value.Value) []stream.Message {
	messages := make([]stream.Message, len(rows))
	tokens := make([]token, len(rows))
	proof := &place{}
	*proof = t.place
	for i, row := range rows {
		at := next + int64(i)
		tokens[i] = token{Found: input.Found{Line: at + 1}, tail: t, end: position{at + 1, at + 2}, place: proof, path: t.path}
		messages[i] = stream.Message{Body: row, Lane: t.lane, Offset: at, Token: &tokens[i]}
	}
	s.advance(t, tokens[len(tokens)-1].end, t.at(), t.place) // the place is the same for all of a table
	return messages
}

// advance notes how far a file was read: up to end, and at as it is on the disk.
func (s *source) advance(t *tail, end position, at int64, last place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.done += at - t.raw
	t.raw, t.end, t.place = at, end, last
}

// Fields adds the place of a record.
func (s *source) Fields(m *stream.Message, b *value.MapBuilder) {
	tok := m.Token.(*token)
	var buf [64]byte
	id := strconv.AppendUint(buf[:0], tok.tail.origin.inode, 16)
	if tok.tail.cut > 0 {
		id = append(id, '.')
		id = strconv.AppendInt(id, int64(tok.tail.cut), 10)
	}
	id = append(id, ':')
	id = strconv.AppendInt(id, m.Offset, 10)
	b.Set("id", value.String(string(id)))
	b.Set("path", value.String(tok.path))
	b.Set("line", value.Int(tok.Line))
	b.Set("offset", value.Int(m.Offset))
}

// Decode makes the body of a record.
func (s *source) Decode(m *stream.Message) (value.Value, error) {
	tok := m.Token.(*token)
	return tok.Found.Decode(m.Raw, tok.path)
}
