package files

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed stdin.md
var stdinPage string

func stdinSource() stream.Source {
	return stream.Source{
		Kind:    "stdin",
		Summary: "Reads the records that the program gets on its standard input.",
		Page:    node.ReadPage(stdinPage),
		Config:  schema.Fields(input.Fields("", format.Lines, format.NDJSON, format.CSV, format.JSON, format.Raw)...),
		Traits:  stream.Traits{Positions: true, Transient: true, Raw: true, Order: stream.OrderTotal},
		Open: func(init *node.Init) (stream.Reader, error) {
			in, err := input.New(init)
			return &stdin{options: in.Options}, err
		},
		Ends: func(schema.Config) bool { return true },
		Holds: func(schema.Config) []node.Hold {
			return []node.Hold{{What: "standard input", Hint: "link the out-port of one node to both targets"}}
		},
	}
}

// inputLeft is what was read of the standard input and not settled, while no node reads
// it.
var inputLeft struct {
	sync.Mutex
	taken   bool // a node reads
	at      position
	bytes   []byte
	columns []string // of CSV, which the first record has
}

// A stdin reads the standard input.
type stdin struct {
	options format.Options
	in      *standardInput // nil unless it is connected
	left    *bytes.Reader  // of the node before
	reader  *format.Reader

	mu struct {
		sync.Mutex
		at   position // what was settled
		kept []byte   // what was read from there on
	}
}

// Connect takes the input from the node that had it.
func (s *stdin) Connect(context.Context, stream.Host) (err error) {
	inputLeft.Lock()
	defer inputLeft.Unlock()
	if inputLeft.taken {
		return &stream.RefusedError{Err: errors.New("another node reads the standard input")}
	}
	if s.in, err = openStandardInput(); err != nil {
		return err
	}
	inputLeft.taken = true
	s.mu.at, s.mu.kept = inputLeft.at, inputLeft.bytes
	s.mu.at.line = max(1, s.mu.at.line)
	s.left = bytes.NewReader(s.mu.kept)
	o := s.options
	if o.Columns == nil && s.mu.at.offset > 0 {
		o.Columns = inputLeft.columns
	}
	s.reader = format.NewReader(io.MultiReader(s.left, keeper{s}), o, s.mu.at.offset, s.mu.at.line)
	return nil
}

// A keeper keeps what is read until it is settled.
type keeper struct{ *stdin }

func (k keeper) Read(b []byte) (int, error) {
	n, err := k.in.Read(b)
	k.mu.Lock()
	k.mu.kept = append(k.mu.kept, b[:n]...)
	k.mu.Unlock()
	return n, err
}

// Read returns the records that are there.
func (s *stdin) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		records, err := s.reader.Buffered(room.Messages, room.Bytes)
		if len(records) > 0 || err != nil {
			return s.messages(records), err
		}
		if s.left.Len() == 0 {
			if err := s.in.wait(ctx); err != nil {
				return nil, err
			}
		}
		if err = s.reader.Fill(); err == io.EOF {
			if rec, ok := s.reader.Rest(); ok && s.reader.Decoder() != nil {
				records = append(records, rec)
			}
			return s.messages(records), io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	}
}

func (s *stdin) messages(records []format.Record) []stream.Message {
	messages := make([]stream.Message, len(records))
	tokens := make([]token, len(records))
	for i := range records {
		r := &records[i]
		tokens[i] = token{Found: input.Found{Decoder: s.reader.Decoder(), Err: r.Err, Line: r.Line}, end: position{offset: r.End}}
		messages[i] = stream.Message{Raw: r.Raw, Offset: r.Offset, Token: &tokens[i]}
	}
	if d := s.reader.Decoder(); d != nil && !d.Whole() {
		input.OwnTexts(messages)
		s.reader.Return()
	}
	return messages
}

// Settle forgets what is settled.
func (s *stdin) Settle(_ context.Context, settled stream.Settled) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range settled.Marks {
		tok := m.Token.(*token)
		n := tok.end.offset - s.mu.at.offset
		s.mu.at.line += int64(bytes.Count(s.mu.kept[:n], []byte{'\n'}))
		s.mu.at.offset = tok.end.offset
		s.mu.kept = s.mu.kept[n:]
	}
	return nil
}

// Fields adds the place of a record.
func (s *stdin) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String("stdin:"+strconv.FormatInt(m.Offset, 10)))
	b.Set("line", value.Int(m.Token.(*token).Line))
	b.Set("offset", value.Int(m.Offset))
}

// Decode makes the body of a record.
func (s *stdin) Decode(m *stream.Message) (value.Value, error) {
	return m.Token.(*token).Found.Decode(m.Raw, "stdin")
}

// Close leaves what is not settled to the next node.
func (s *stdin) Close(context.Context) error {
	if s.in == nil {
		return nil
	}
	inputLeft.Lock()
	defer inputLeft.Unlock()
	inputLeft.taken = false
	inputLeft.at, inputLeft.bytes, inputLeft.columns = s.mu.at, bytes.Clone(s.mu.kept), s.reader.Columns()
	err := s.in.close()
	s.in = nil
	return err
}
