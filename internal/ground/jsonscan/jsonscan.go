// Package jsonscan finds where JSON values end, and checks them on the way: RFC
// 8259, strictly. It builds no values and allocates nothing but errors and the
// memory of a Scanner. Offsets are bytes from the start of the text, from 0.
//
// It does not check that strings are UTF-8.
package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// An Error says where a text stops being JSON.
type Error struct {
	Offset int
	Msg    string
}

func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Msg) }

// Unexpected returns the error for the byte at offset i, which should be what want
// says.
func Unexpected(b []byte, i int, want string) error {
	if i >= len(b) {
		return &Error{len(b), "want " + want + ", got the end"}
	}
	return &Error{i, fmt.Sprintf("want %s, got %q", want, b[i:i+1])}
}

// Space returns the offset of the first byte from i on that is not white space.
func Space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// maxDepth is how deep encoding/json reads.
const maxDepth = 10000

// A Scanner scans one value after another. The zero value is ready for use.
type Scanner struct {
	MaxDepth int // of nested arrays and objects; 0 means 10,000, as in encoding/json

	open []byte // the open arrays and objects, as '[' and '{'
}

// Value returns the offset after the value that begins at i. There must be no
// white space at i. The error is an [*Error].
func (s *Scanner) Value(b []byte, i int) (end int, err error) {
	limit := s.MaxDepth
	if limit == 0 {
		limit = maxDepth
	}
	s.open = s.open[:0]
value:
	if i >= len(b) {
		return i, Unexpected(b, i, "a value")
	}
	switch c := b[i]; c {
	case '{', '[':
		if len(s.open) == limit {
			return i, &Error{i, fmt.Sprintf("nested deeper than %d", limit)}
		}
		s.open = append(s.open, c)
		i = Space(b, i+1)
		if i < len(b) && b[i] == c+2 { // the closing one: two further in ASCII
			goto leave
		}
		if c == '{' {
			goto name
		}
		goto value
	case '"':
		i, _, err = String(b, i)
	case 't':
		i, err = Literal(b, i, "true")
	case 'f':
		i, err = Literal(b, i, "false")
	case 'n':
		i, err = Literal(b, i, "null")
	default:
		if c != '-' && !digit(c) {
			return i, Unexpected(b, i, "a value")
		}
		i, _, err = Number(b, i)
	}
	if err != nil {
		return i, err
	}
next:
	if len(s.open) == 0 {
		return i, nil
	}
	i = Space(b, i)
	if s.open[len(s.open)-1] == '[' {
		if i < len(b) && b[i] == ',' {
			i = Space(b, i+1)
			goto value
		}
		if i >= len(b) || b[i] != ']' {
			return i, Unexpected(b, i, `"," or "]"`)
		}
		goto leave
	}
	if i >= len(b) || b[i] != ',' {
		if i >= len(b) || b[i] != '}' {
			return i, Unexpected(b, i, `"," or "}"`)
		}
		goto leave
	}
	i = Space(b, i+1)
name:
	if i >= len(b) || b[i] != '"' {
		return i, Unexpected(b, i, "a name in quotes")
	}
	if i, _, err = String(b, i); err != nil {
		return i, err
	}
	if i = Space(b, i); i >= len(b) || b[i] != ':' {
		return i, Unexpected(b, i, `":"`)
	}
	i = Space(b, i+1)
	goto value
leave:
	s.open = s.open[:len(s.open)-1]
	i++
	goto next
}

// Literal returns the offset after true, false or null, which begins at i.
func Literal(b []byte, i int, want string) (end int, err error) {
	for k := range len(want) {
		if i+k >= len(b) || b[i+k] != want[k] {
			return i, Unexpected(b, i+k, want)
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

// Number returns the offset after the number that begins at i, and whether it has
// neither a fraction nor an exponent.
func Number(b []byte, i int) (end int, integer bool, err error) {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b) || !digit(b[i]):
		return i, false, Unexpected(b, i, "a digit")
	case b[i] == '0':
		i++
	default:
		i = digits(b, i)
	}
	integer = true
	if i < len(b) && b[i] == '.' {
		integer = false
		if i++; i >= len(b) || !digit(b[i]) {
			return i, false, Unexpected(b, i, "a digit")
		}
		i = digits(b, i)
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		integer = false
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !digit(b[i]) {
			return i, false, Unexpected(b, i, "a digit")
		}
		i = digits(b, i)
	}
	return i, integer, nil
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns a word whose lowest set bit is in the first byte of w that is a
// quote, a backslash or a control character. Bits of later bytes may be wrong, by
// the borrow of the subtraction.
func special(w uint64) uint64 {
	quote, slash := w^(lows*'"'), w^(lows*'\\')
	return ((quote-lows)&^quote | (slash-lows)&^slash | (w-lows*0x20)&^w) & highs
}

// String returns the offset after the string whose first quote is at i, and whether
// it has escapes.
func String(b []byte, i int) (end int, escaped bool, err error) {
	i++
	for {
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				if i += bits.TrailingZeros64(m) / 8; b[i] == '"' {
					return i + 1, escaped, nil
				}
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
			i++
		}
		if i >= len(b) {
			return i, escaped, Unexpected(b, i, `the "\"" that ends a string`)
		}
		switch b[i] {
		case '"':
			return i + 1, escaped, nil
		case '\\':
			escaped = true
			if i, err = escape(b, i+1); err != nil {
				return i, true, err
			}
		default:
			return i, escaped, &Error{i, fmt.Sprintf("control character %#x in a string", b[i])}
		}
	}
}

// escape returns the offset after an escape whose backslash is before i.
func escape(b []byte, i int) (end int, err error) {
	if i >= len(b) {
		return i, Unexpected(b, i, "an escape")
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, nil
	case 'u':
		for range 4 {
			i++
			if i >= len(b) || !digit(b[i]) && (b[i]|0x20 < 'a' || b[i]|0x20 > 'f') {
				return i, Unexpected(b, i, "a hexadecimal digit")
			}
		}
		return i + 1, nil
	}
	return i, Unexpected(b, i, "an escape")
}

// AppendText appends what a valid string says. Quoted is the string without its
// quotes. Half a surrogate pair becomes U+FFFD, as in encoding/json.
func AppendText(dst, quoted []byte) []byte {
	for i := 0; i < len(quoted); {
		c := quoted[i]
		if i++; c != '\\' {
			dst = append(dst, c)
			continue
		}
		c = quoted[i]
		i++
		switch c {
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
			r := hex(quoted[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(quoted)-i >= 6 && quoted[i] == '\\' && quoted[i+1] == 'u' {
					low = hex(quoted[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

func hex(b []byte) rune {
	v, err := strconv.ParseUint(string(b[:4]), 16, 16)
	if err != nil {
		return utf8.RuneError // not of a valid string
	}
	return rune(v)
}

// Compact copies a valid value to the beginning of dst without the white space
// outside its strings, and returns its length. Dst may be the same memory, at the
// same place or before.
func Compact(dst, value []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\\': // only in strings; the byte after it does not end one
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
