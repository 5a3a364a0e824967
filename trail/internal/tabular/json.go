package tabular

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/ground/jsonscan"
	"github.com/uniflow-labs/uniflow/internal/records"
)

// A kind is what stands as the value of a member of a JSON object.
type kind uint8

const (
	jsonNull    kind = iota
	jsonString       // text is what it says
	jsonInteger      // text is the literal: digits, maybe after a minus
	jsonNumber       // the same, with a fraction or an exponent
	jsonBool         // true or false
	jsonArray
	jsonObject // one that is nested too deep to be taken apart
)

func (k kind) String() string {
	return [...]string{"null", "a string", "an integer", "a number", "a boolean", "an array", "an object"}[k]
}

// A member is a name and a value in an object, or in an object in it: then the
// name is both names with a dot between.
type member struct {
	name, text string
	kind       kind
}

// maxParts is how many names a dotted name may have. maxDepth limits how deep the
// arrays and objects of a value may be nested.
const (
	maxParts = 4
	maxDepth = 200
)

// A scanner splits JSON objects into members. Members are valid until the next call
// of reset, and as long as the lines stay.
type scanner struct {
	members []member
	arena   []byte // names with dots and strings with escapes
	path    []byte
	values  jsonscan.Scanner
	b       []byte
	i       int
}

// reset frees the memory of members.
func (s *scanner) reset() { s.arena = s.arena[:0] }

var (
	errObject = errors.New("not a JSON object")
	errName   = errors.New("JSON: a property without a name")
)

// object finds the members of the object in a line, in order.
func (s *scanner) object(line []byte) error {
	s.members, s.path = s.members[:0], s.path[:0]
	s.b, s.i = line, 0
	if !utf8.Valid(line) {
		return records.ErrUTF8
	}
	if s.space() != '{' {
		return errObject
	}
	if err := s.inside(1); err != nil {
		return err
	}
	if s.space(); s.i < len(s.b) {
		return s.unexpected("the end of the line")
	}
	return nil
}

// space skips white space and returns the byte after it, 0 at the end.
func (s *scanner) space() byte {
	if s.i = jsonscan.Space(s.b, s.i); s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) unexpected(want string) error {
	return syntax(jsonscan.Unexpected(s.b, s.i, want))
}

func syntax(err error) error { return fmt.Errorf("JSON: %w", err) }

// inside reads an object from its brace on. Its members have names of so many
// parts.
func (s *scanner) inside(parts int) error {
	s.i++
	if s.space() == '}' {
		s.i++
		return nil
	}
	before := len(s.path)
	for {
		if s.space() != '"' {
			return s.unexpected("a name in quotes")
		}
		name, err := s.text()
		if err != nil {
			return err
		}
		if s.space() != ':' {
			return s.unexpected(`":"`)
		}
		s.i++
		if name == "" {
			return errName
		}
		if parts > 1 {
			s.path = append(append(s.path[:before], '.'), name...)
			start := len(s.arena)
			s.arena = append(s.arena, s.path...)
			name = lend(s.arena[start:])
		}
		if s.space() == '{' && parts < maxParts {
			if parts == 1 {
				s.path = append(s.path[:0], name...)
			}
			if err := s.inside(parts + 1); err != nil {
				return err
			}
		} else {
			m := member{name: name}
			if m.kind, m.text, err = s.value(); err != nil {
				return err
			}
			s.members = append(s.members, m)
		}
		switch s.space() {
		case ',':
			s.i++
		case '}':
			s.i++
			s.path = s.path[:before]
			return nil
		default:
			return s.unexpected(`"," or "}"`)
		}
	}
}

// value reads a value. It skips arrays and objects.
func (s *scanner) value() (k kind, text string, err error) {
	var end int
	switch c := s.space(); c {
	case '"':
		text, err = s.text()
		return jsonString, text, err
	case 't':
		k, text = jsonBool, "true"
		end, err = jsonscan.Literal(s.b, s.i, text)
	case 'f':
		k, text = jsonBool, "false"
		end, err = jsonscan.Literal(s.b, s.i, text)
	case 'n':
		k = jsonNull
		end, err = jsonscan.Literal(s.b, s.i, "null")
	case '[', '{':
		if k = jsonArray; c == '{' {
			k = jsonObject
		}
		s.values.MaxDepth = maxDepth
		end, err = s.values.Value(s.b, s.i)
	default:
		if c != '-' && !isDigit(c) {
			return 0, "", s.unexpected("a value")
		}
		var integer bool
		end, integer, err = jsonscan.Number(s.b, s.i)
		if k = jsonNumber; integer {
			k = jsonInteger
		}
		text = lend(s.b[s.i:end])
	}
	if err != nil {
		return 0, "", syntax(err)
	}
	s.i = end
	return k, text, nil
}

// text reads a string. Without escapes it is part of the line.
func (s *scanner) text() (string, error) {
	end, escaped, err := jsonscan.String(s.b, s.i)
	if err != nil {
		return "", syntax(err)
	}
	quoted := s.b[s.i+1 : end-1]
	s.i = end
	if !escaped {
		return lend(quoted), nil
	}
	at := len(s.arena)
	s.arena = jsonscan.AppendText(s.arena, quoted)
	return lend(s.arena[at:]), nil
}
