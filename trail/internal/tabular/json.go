package tabular

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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

// String names a kind in messages.
func (k kind) String() string {
	return [...]string{"null", "a string", "an integer", "a number", "a boolean", "an array", "an object"}[k]
}

// A member is a name and a value in an object, or in an object in it: then the
// name is that of both with a dot between.
type member struct {
	name, text string
	kind       kind
}

// maxParts is how many names a dotted one may be of; maxDepth bounds the arrays
// and objects in a value that is passed over.
const (
	maxParts = 4
	maxDepth = 200
)

// A scanner takes objects of JSON (RFC 8259, strictly) apart. Members are lent:
// they are good until the next call of reset, and as long as the lines stay.
type scanner struct {
	members []member
	arena   []byte // names with dots and strings with escapes
	path    []byte
	b       []byte
	i       int
}

// reset frees what was lent.
func (s *scanner) reset() { s.arena = s.arena[:0] }

var (
	errObject = errors.New("not a JSON object")
	errShort  = errors.New("JSON: the line ends too early")
	errUTF8   = errors.New("not valid UTF-8")
	errName   = errors.New("JSON: a property without a name")
)

// object finds the members of the object that a line is, in order.
func (s *scanner) object(line []byte) error {
	s.members, s.path = s.members[:0], s.path[:0]
	s.b, s.i = line, 0
	if !utf8.Valid(line) {
		return errUTF8
	}
	if s.space() != '{' {
		return errObject
	}
	if err := s.inside(1); err != nil {
		return err
	}
	if s.space(); s.i < len(s.b) {
		return s.unexpected("behind the object")
	}
	return nil
}

// space passes over white space and returns the byte behind it, 0 at the end.
func (s *scanner) space() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) unexpected(where string) error {
	if s.i >= len(s.b) {
		return errShort
	}
	r, _ := utf8.DecodeRune(s.b[s.i:])
	return fmt.Errorf("JSON: unexpected %q %s (byte %d)", r, where, s.i+1)
}

// inside reads an object from its brace on; parts is how many names its members
// are of.
func (s *scanner) inside(parts int) error {
	s.i++
	if s.space() == '}' {
		s.i++
		return nil
	}
	before := len(s.path)
	for {
		if s.space() != '"' {
			return s.unexpected("where a name is due")
		}
		name, err := s.text()
		if err != nil {
			return err
		}
		if s.space() != ':' {
			return s.unexpected("where a colon is due")
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
			return s.unexpected("where a comma or a brace is due")
		}
	}
}

// value reads a value; arrays and objects are passed over.
func (s *scanner) value() (k kind, text string, err error) {
	switch c := s.space(); c {
	case '"':
		text, err = s.text()
		return jsonString, text, err
	case 't':
		text, err = s.word("true")
		return jsonBool, text, err
	case 'f':
		text, err = s.word("false")
		return jsonBool, text, err
	case 'n':
		_, err = s.word("null")
		return jsonNull, "", err
	case '[':
		return jsonArray, "", s.pass()
	case '{':
		return jsonObject, "", s.pass()
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return 0, "", s.unexpected("where a value is due")
	}
}

func (s *scanner) word(w string) (string, error) {
	if len(s.b)-s.i < len(w) || lend(s.b[s.i:s.i+len(w)]) != w {
		return "", s.unexpected("where a value is due")
	}
	s.i += len(w)
	return w, nil
}

// number reads the literal of a number.
func (s *scanner) number() (k kind, text string, err error) {
	start := s.i
	if s.b[s.i] == '-' {
		s.i++
	}
	zero := s.i < len(s.b) && s.b[s.i] == '0'
	n := s.digits()
	if n == 0 || zero && n > 1 {
		return 0, "", s.unexpected("in a number")
	}
	k = jsonInteger
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if k = jsonNumber; s.digits() == 0 {
			return 0, "", s.unexpected("in a number")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if k = jsonNumber; s.digits() == 0 {
			return 0, "", s.unexpected("in a number")
		}
	}
	return k, lend(s.b[start:s.i]), nil
}

func (s *scanner) digits() (n int) {
	for s.i < len(s.b) && isDigit(s.b[s.i]) {
		s.i++
		n++
	}
	return n
}

// pass goes over an array or an object. It checks strings and brackets, which is
// enough to find the end, but not every comma: the value is not used.
func (s *scanner) pass() error {
	var open [maxDepth]byte
	for depth := 0; ; {
		switch c := s.space(); c {
		case '[', '{':
			if depth == maxDepth {
				return fmt.Errorf("JSON: nested more than %d deep", maxDepth)
			}
			open[depth] = c
			depth++
			s.i++
		case ']', '}':
			if depth--; open[depth] != c-2 { // the brackets are two apart in ASCII
				return s.unexpected("in a nested value")
			}
			if s.i++; depth == 0 {
				return nil
			}
		case ',', ':':
			s.i++
		case 0:
			return errShort
		default:
			if _, _, err := s.value(); err != nil {
				return err
			}
		}
	}
}

// text reads a string: lent from the line if it has no escapes.
func (s *scanner) text() (string, error) {
	s.i++
	start := s.i
	for i := start; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return lend(s.b[start:i]), nil
		case c == '\\':
			s.i = i
			return s.escaped(start)
		case c < ' ':
			s.i = i
			return "", s.unexpected("in a string")
		}
	}
	return "", errShort
}

// escaped reads a string on from its first escape.
func (s *scanner) escaped(start int) (string, error) {
	at := len(s.arena)
	s.arena = append(s.arena, s.b[start:s.i]...)
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return lend(s.arena[at:]), nil
		case c < ' ':
			return "", s.unexpected("in a string")
		case c != '\\':
			s.arena = append(s.arena, c)
			s.i++
			continue
		}
		s.i++
		if s.i == len(s.b) {
			break
		}
		switch c = s.b[s.i]; c {
		case '"', '\\', '/':
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, ok := s.hex()
			if !ok {
				return "", s.unexpected("in an escape")
			}
			if utf16.IsSurrogate(r) {
				r = s.pair(r)
			}
			s.arena = utf8.AppendRune(s.arena, r)
			continue
		default:
			return "", s.unexpected("in an escape")
		}
		s.arena = append(s.arena, c)
		s.i++
	}
	return "", errShort
}

// hex reads uXXXX.
func (s *scanner) hex() (rune, bool) {
	if len(s.b)-s.i < 5 {
		return 0, false
	}
	for _, c := range s.b[s.i+1 : s.i+5] {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0, false
		}
	}
	v, err := strconv.ParseUint(lend(s.b[s.i+1:s.i+5]), 16, 32)
	s.i += 5
	return rune(v), err == nil
}

// pair reads the other half of a character beyond the 16 bit ones; a half alone
// becomes U+FFFD, as encoding/json has it.
func (s *scanner) pair(high rune) rune {
	if len(s.b)-s.i < 6 || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		return utf8.RuneError
	}
	back := s.i
	s.i++
	low, ok := s.hex()
	r := utf16.DecodeRune(high, low)
	if !ok || r == utf8.RuneError {
		s.i = back
		return utf8.RuneError
	}
	return r
}
