package loader

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth is how deep arrays and objects may be nested: as much as
// encoding/json allows, so that whoever reads the files with it can.
const maxDepth = 10000

// A syntaxError says where a text stops being JSON.
type syntaxError struct {
	offset int // bytes from the start of the text
	what   string
}

// Error returns the place and what is wrong there.
func (e *syntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.offset, e.what) }

// A scanner finds where JSON values end, and checks them on the way. It builds
// nothing: what it keeps between calls is room for the nesting.
type scanner struct {
	nest []byte // the open arrays and objects, as '[' and '{'
}

// wrong is the error for a byte that cannot stand where it does.
func wrong(b []byte, i int, want string) (int, error) {
	if i >= len(b) {
		return len(b), &syntaxError{len(b), "want " + want + ", got the end"}
	}
	return i, &syntaxError{i, fmt.Sprintf("want %s, got %q", want, b[i:i+1])}
}

// space returns the place of the first byte from i on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// value returns the place after the value that begins at i, where no white
// space may be.
func (s *scanner) value(b []byte, i int) (int, error) {
	s.nest = s.nest[:0]
	var err error
begin:
	if i >= len(b) {
		return wrong(b, i, "a value")
	}
	switch c := b[i]; c {
	case '{':
		if len(s.nest) == maxDepth {
			return i, &syntaxError{i, fmt.Sprintf("nested deeper than %d", maxDepth)}
		}
		s.nest = append(s.nest, c)
		if i = space(b, i+1); i < len(b) && b[i] == '}' {
			goto leave
		}
		goto key
	case '[':
		if len(s.nest) == maxDepth {
			return i, &syntaxError{i, fmt.Sprintf("nested deeper than %d", maxDepth)}
		}
		s.nest = append(s.nest, c)
		if i = space(b, i+1); i < len(b) && b[i] == ']' {
			goto leave
		}
		goto begin
	case '"':
		i, err = text(b, i)
	case 't':
		i, err = word(b, i, "true")
	case 'f':
		i, err = word(b, i, "false")
	case 'n':
		i, err = word(b, i, "null")
	default:
		if c != '-' && !digit(c) {
			return wrong(b, i, "a value")
		}
		i, err = number(b, i)
	}
	if err != nil {
		return i, err
	}
next:
	if len(s.nest) == 0 {
		return i, nil
	}
	i = space(b, i)
	if s.nest[len(s.nest)-1] == '[' {
		if i < len(b) && b[i] == ',' {
			i = space(b, i+1)
			goto begin
		}
		if i >= len(b) || b[i] != ']' {
			return wrong(b, i, `"," or "]"`)
		}
		goto leave
	}
	if i >= len(b) || b[i] != ',' {
		if i >= len(b) || b[i] != '}' {
			return wrong(b, i, `"," or "}"`)
		}
		goto leave
	}
	i = space(b, i+1)
key:
	if i >= len(b) || b[i] != '"' {
		return wrong(b, i, "a name in quotes")
	}
	if i, err = text(b, i); err != nil {
		return i, err
	}
	if i = space(b, i); i >= len(b) || b[i] != ':' {
		return wrong(b, i, `":"`)
	}
	i = space(b, i+1)
	goto begin
leave:
	s.nest = s.nest[:len(s.nest)-1]
	i++
	goto next
}

func word(b []byte, i int, want string) (int, error) {
	for k := range len(want) {
		if i+k >= len(b) || b[i+k] != want[k] {
			return wrong(b, i+k, want)
		}
	}
	return i + len(want), nil
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func digits(b []byte, i int) int {
	for i < len(b) && digit(b[i]) {
		i++
	}
	return i
}

func number(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	if i >= len(b) || !digit(b[i]) {
		return wrong(b, i, "a digit")
	}
	if b[i] == '0' {
		i++
	} else {
		i = digits(b, i)
	}
	if i < len(b) && b[i] == '.' {
		if i++; i >= len(b) || !digit(b[i]) {
			return wrong(b, i, "a digit")
		}
		i = digits(b, i)
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !digit(b[i]) {
			return wrong(b, i, "a digit")
		}
		i = digits(b, i)
	}
	return i, nil
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns a word whose lowest high bit marks the first byte of w that
// ends a run of plain characters: a quote, a backslash, a control character.
// Bytes after that one may be marked wrongly, by the borrow of the subtraction.
func special(w uint64) uint64 {
	quote, slash := w^(lows*'"'), w^(lows*'\\')
	return ((quote-lows)&^quote | (slash-lows)&^slash | (w-lows*0x20)&^w) & highs
}

// text returns the place after the string that begins at i.
func text(b []byte, i int) (int, error) {
	i++
	for {
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
			i++
		}
		if i >= len(b) {
			return wrong(b, i, `the "\"" that ends a string`)
		}
		switch b[i] {
		case '"':
			return i + 1, nil
		case '\\':
			var err error
			if i, err = escape(b, i+1); err != nil {
				return i, err
			}
		default:
			return i, &syntaxError{i, fmt.Sprintf("control character %#x in a string", b[i])}
		}
	}
}

// escape returns the place after an escape of which the backslash is before i.
func escape(b []byte, i int) (int, error) {
	if i >= len(b) {
		return wrong(b, i, "an escape")
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, nil
	case 'u':
		for range 4 {
			i++
			if i >= len(b) || !digit(b[i]) && (b[i]|0x20 < 'a' || b[i]|0x20 > 'f') {
				return wrong(b, i, "a hexadecimal digit")
			}
		}
		return i + 1, nil
	}
	return wrong(b, i, "an escape")
}

// compact copies a valid value to the front of dst without the white space
// outside its strings, and returns its length. Dst may be the same memory, at
// the same place or before.
func compact(dst, value []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\\': // only in strings; what follows is no end of one
			dst[n] = c
			n, i = n+1, i+1
			c = value[i]
		case !quoted && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		dst[n] = c
		n++
	}
	return n
}
