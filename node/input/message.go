package input

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A Found is what is known of a record that was found, and how its body is made.
type Found struct {
	Decoder *format.Decoder
	Row     *format.Row // of CSV; nil otherwise
	Err     error       // the record is damaged
	Line    int64
}

// Decode makes the body of a record of what name names, such as a path.
func (f *Found) Decode(raw []byte, name string) (v value.Value, err error) {
	switch {
	case f.Err != nil:
		err = f.Err
	case f.Row != nil:
		v, err = f.Row.Decode(raw)
	default:
		v, err = f.Decoder.Decode(raw)
	}
	if err != nil {
		return v, fmt.Errorf("%s:%d: %w", name, f.Line, err)
	}
	return v, nil
}

// OwnTexts gives messages copies of their texts, so that what is read next takes the memory of
// what was. Short ones are together, and keeping one keeps all of these.
func OwnTexts(messages []stream.Message) {
	for len(messages) > 0 {
		n, size := 1, len(messages[0].Raw)
		for n < len(messages) && size+len(messages[n].Raw) <= mostTogether {
			size += len(messages[n].Raw)
			n++
		}
		texts := make([]byte, 0, size)
		for i := range messages[:n] {
			at := len(texts)
			texts = append(texts, messages[i].Raw...)
			messages[i].Raw = texts[at:len(texts):len(texts)]
		}
		messages = messages[n:]
	}
}

// mostTogether is how many bytes of texts are allocated together, unless one is longer.
const mostTogether = 4 << 10
