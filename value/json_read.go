package value

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unicode/utf8"
	"unsafe"
)

// JSONOptions limits what [ParseJSONWith] accepts. The zero JSONOptions is the
// default.
type JSONOptions struct {
	MaxDepth         int  // how deep lists and maps may nest; 0 means 512, the most is MaxDepth
	MaxBytes         int  // how long the text may be; 0 means no limit
	RejectDuplicates bool // a name that occurs twice in an object is an error

	// OnDemand is for a text of which little is read: if it is an object, its fields, and the
	// maps and lists in it, are made when they are read. What is not read is written as it is
	// in the text, as long as that is what [Value.AppendJSON] would write. The value keeps a
	// copy of the text, and so does a part of it; of a text longer than 1 KiB, a part keeps at
	// most four times its length.
	OnDemand bool

	// Owned gives the text to the value, which needs no copy then: it must not be changed any
	// more.
	Owned bool

	// Reserve, if set, is called before memory is allocated, for some KiB at a time,
	// so that a short text cannot become a large value unnoticed. Its error ends the
	// reading and is returned as it is. A negative number releases what is not
	// needed. So the sum of all calls is what the value keeps or, after an error,
	// approximately what the parser had allocated.
	Reserve func(bytes int) error
}

const defaultJSONDepth = 512

// A JSONError says where a text is not JSON, or exceeds the limits.
type JSONError struct {
	Offset int // in bytes, from 0
	Line   int // from 1
	Col    int // in bytes, from 1
	Msg    string
}

// Error returns the message with line and column in front.
func (e *JSONError) Error() string {
	return fmt.Sprintf("JSON, line %d, column %d: %s", e.Line, e.Col, e.Msg)
}

// ParseJSON parses one JSON text by RFC 8259, with only white space before and after
// it. Where that leaves a choice:
//
//   - A name that occurs twice: the later value takes the place of the earlier one.
//   - Digits only: an integer, or a float if beyond the range of uint64. -0, and
//     numbers with a point or an exponent, are floats; beyond the range of
//     float64 they are an error, and too small ones are 0.
//   - Bytes that are not UTF-8, and halves of surrogate pairs: U+FFFD.
//   - A byte order mark in front: an error.
//
// The value does not share memory with data. Its strings share it with one
// another, at most 1 KiB at a time: keeping one does not keep the whole text.
// The error is a [*JSONError].
func ParseJSON(data []byte) (Value, error) { return ParseJSONWith(data, JSONOptions{}) }

// ParseJSONWith is [ParseJSON] with limits. The error is a [*JSONError] or what
// Reserve returned.
func ParseJSONWith(data []byte, o JSONOptions) (Value, error) {
	p := parsers.Get().(*parser)
	p.data, p.pos, p.errMsg, p.rejectDuplicates = data, 0, "", o.RejectDuplicates
	p.budget = budget{reserve: o.Reserve, block: min(max(4*len(data), 512), maxBlock)}
	if o.Reserve == nil {
		p.budget.left = math.MaxInt
	}
	p.maxDepth = min(o.MaxDepth, MaxDepth)
	if p.maxDepth <= 0 {
		p.maxDepth = defaultJSONDepth
	}
	v := p.document(o)
	err := p.budget.finish()
	switch {
	case err != nil:
		v = Value{}
	case p.errMsg != "":
		v, err = Value{}, p.jsonError()
	}
	p.release()
	return v, err
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

// A scanner reads what has no parts: names, strings, numbers and words. A method that finds
// an error calls fail and returns false; the first error stays.
type scanner struct {
	data    []byte
	pos     int
	errPos  int
	errMsg  string
	scratch []byte // for strings that are not as they are in data
}

// A parser parses one text after another.
type parser struct {
	scanner
	maxDepth         int
	rejectDuplicates bool

	// The elements and fields of open lists and maps, the innermost last. When one
	// is closed, its part is copied to a slice of its length.
	elems      []Value
	fields     []Field
	elemsUsed  int // how much of elems was ever used, to be cleared
	fieldsUsed int

	budget budget
	survey survey

	chunk []byte // memory for the next strings; len is what is used

	// keys are the names of earlier texts and objects by hash, so that a name that
	// occurs again needs no allocation. A new name replaces the one in its place.
	keys [256]knownKey
}

const (
	maxChunk    = 1024 // bytes of strings allocated together: what one of them may keep alive
	maxInChunk  = 256  // longer strings have memory of their own
	maxKey      = 64   // longer names are not kept in keys
	maxIdle     = 4096 // fields or elements that an idle parser keeps room for
	indexedFrom = 32   // fields from which duplicates are looked for by index
)

// release returns the parser to the pool. Of the last text it keeps only short names.
func (p *parser) release() {
	clear(p.elems[:max(p.elemsUsed, len(p.elems))])
	clear(p.fields[:max(p.fieldsUsed, len(p.fields))])
	p.data, p.chunk, p.budget.reserve, p.budget.err = nil, nil, nil, nil
	p.elems, p.fields, p.elemsUsed, p.fieldsUsed = p.elems[:0], p.fields[:0], 0, 0
	if cap(p.elems) > maxIdle {
		p.elems = nil
	}
	if cap(p.fields) > maxIdle {
		p.fields = nil
	}
	if cap(p.scratch) > maxIdle {
		p.scratch = nil
	}
	if cap(p.survey.hashes) > maxIdle {
		p.survey.hashes = nil
	}
	parsers.Put(p)
}

func (s *scanner) fail(pos int, msg string) bool {
	if s.errMsg == "" {
		s.errPos, s.errMsg = pos, msg
	}
	return false
}

func (s *scanner) jsonError() *JSONError {
	before := s.data[:s.errPos]
	return &JSONError{
		Offset: s.errPos,
		Line:   1 + bytes.Count(before, []byte{'\n'}),
		Col:    s.errPos - bytes.LastIndexByte(before, '\n'),
		Msg:    s.errMsg,
	}
}

func (p *parser) document(o JSONOptions) Value {
	if o.MaxBytes > 0 && len(p.data) > o.MaxBytes {
		p.fail(o.MaxBytes, fmt.Sprintf("longer than %d bytes", o.MaxBytes))
		return Value{}
	}
	if bytes.HasPrefix(p.data, []byte("\xEF\xBB\xBF")) {
		p.fail(0, "a byte order mark is not allowed")
		return Value{}
	}
	if o.OnDemand && p.next() == '{' {
		start := p.pos
		text := ""
		if o.Owned {
			text = unsafe.String(unsafe.SliceData(p.data), len(p.data))[start:]
		}
		if v, ok := p.onDemand(text); ok && p.next() == 0 && p.pos == len(p.data) {
			return v
		}
		p.pos, p.errMsg = start, ""
	}
	v, ok := p.value(0)
	if ok {
		if p.next(); p.pos < len(p.data) {
			p.unexpected("end of text")
		}
	}
	return v
}

// next skips white space and returns the byte after it, or 0 at the end.
func (s *scanner) next() byte {
	for i := s.pos; i < len(s.data); i++ {
		if c := s.data[i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			s.pos = i
			return c
		}
	}
	s.pos = len(s.data)
	return 0
}

func (s *scanner) unexpected(want string) bool {
	if s.pos >= len(s.data) {
		return s.fail(len(s.data), "unexpected end, want "+want)
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.fail(s.pos, fmt.Sprintf("unexpected %q, want %s", r, want))
}

// value parses a value that is nested in depth lists and maps.
func (p *parser) value(depth int) (Value, bool) {
	switch c := p.next(); c {
	case '"':
		s, ok := p.text()
		return String(s), ok
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case 't':
		return Bool(true), p.word("true")
	case 'f':
		return Bool(false), p.word("false")
	case 'n':
		return Value{}, p.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number()
	}
	return Value{}, p.unexpected("a value")
}

func (s *scanner) word(w string) bool {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return s.unexpected(w)
	}
	s.pos += len(w)
	return true
}

// enter skips an opening bracket or brace.
func (p *parser) enter(depth int) bool {
	if depth >= p.maxDepth {
		return p.fail(p.pos, fmt.Sprintf("nests deeper than %d levels", p.maxDepth))
	}
	p.pos++
	return true
}

func (p *parser) array(depth int) (Value, bool) {
	if !p.enter(depth) {
		return Value{}, false
	}
	base, start := len(p.elems), p.pos
	if p.next() == ']' {
		p.pos++
		return List(), true
	}
	for {
		v, ok := p.value(depth + 1)
		if !ok {
			return Value{}, false
		}
		if len(p.elems) == cap(p.elems) && !p.growElems(base, start) {
			return Value{}, false
		}
		p.elems = append(p.elems, v)
		switch p.next() {
		case ',':
			p.pos++
			continue
		case ']':
			p.pos++
		default:
			return Value{}, p.unexpected("',' or ']'")
		}
		return p.closeArray(base)
	}
}

// closeArray makes a list of the elements from base on.
func (p *parser) closeArray(base int) (Value, bool) {
	n := len(p.elems) - base
	if base == 0 && n > maxIdle && n > cap(p.elems)/4*3 {
		elems := p.elems // too large to be kept for the next text, so the list takes it
		p.elems, p.elemsUsed, p.budget.elems = nil, 0, 0
		return List(elems...), true
	}
	if !p.take(n * valueSize) {
		return Value{}, false
	}
	p.elemsUsed = max(p.elemsUsed, len(p.elems))
	elems := make([]Value, n)
	copy(elems, p.elems[base:])
	p.elems = p.elems[:base]
	return List(elems...), true
}

// growElems makes room for more elements of the array that starts at an offset. It
// estimates their number from what was read of the array so far, as growing in small
// steps would take twice the memory.
func (p *parser) growElems(base, start int) bool {
	have := cap(p.elems)
	n := have + max(have/2, 16)
	if have >= maxIdle {
		perByte := float64(len(p.elems)-base) / float64(p.pos-start)
		n = min(max(n, len(p.elems)+int(perByte*float64(len(p.data)-p.pos)*1.02)), 16*have)
	}
	if !p.take(n * valueSize) {
		return false
	}
	elems := make([]Value, len(p.elems), n)
	copy(elems, p.elems)
	p.budget.replaced(&p.budget.elems, n*valueSize)
	p.elems = elems
	p.elemsUsed = 0
	return true
}

func (p *parser) growFields() bool {
	n := cap(p.fields) + max(cap(p.fields)/2, 16)
	if !p.take(n * fieldBytes) {
		return false
	}
	fields := make([]Field, len(p.fields), n)
	copy(fields, p.fields)
	p.budget.replaced(&p.budget.fields, n*fieldBytes)
	p.fields = fields
	p.fieldsUsed = 0
	return true
}

func (p *parser) object(depth int) (Value, bool) {
	if !p.enter(depth) {
		return Value{}, false
	}
	base := len(p.fields)
	var (
		seen  uint64           // a bit for the hash of each name: without it the name is new
		index map[string]int32 // names of a long object
	)
	if p.next() == '}' {
		p.pos++
		return p.closeObject(base, nil)
	}
	for {
		if p.next() != '"' {
			return Value{}, p.unexpected("a name in quotes")
		}
		at := p.pos
		name, hash, ok := p.key()
		if !ok {
			return Value{}, false
		}
		earlier := -1
		if bit := uint64(1) << (hash & 63); seen&bit == 0 {
			seen |= bit
		} else {
			made := index == nil
			if earlier, index = p.earlier(base, name, index); made && index != nil && !p.take(2*indexSize*indexedFrom) {
				return Value{}, false
			}
		}
		if earlier >= 0 && p.rejectDuplicates {
			return Value{}, p.fail(at, fmt.Sprintf("the name %q occurs twice", name))
		}
		if p.next() != ':' {
			return Value{}, p.unexpected("':'")
		}
		p.pos++
		v, ok := p.value(depth + 1)
		if !ok {
			return Value{}, false
		}
		if earlier >= 0 {
			p.fields[base+earlier].Value = v
		} else {
			if index != nil {
				if !p.take(indexSize) {
					return Value{}, false
				}
				index[name] = int32(len(p.fields) - base)
			}
			if len(p.fields) == cap(p.fields) && !p.growFields() {
				return Value{}, false
			}
			p.fields = append(p.fields, Field{name, v})
		}
		switch p.next() {
		case ',':
			p.pos++
			continue
		case '}':
			p.pos++
		default:
			return Value{}, p.unexpected("',' or '}'")
		}
		return p.closeObject(base, index)
	}
}

// earlier returns the index of the field of the innermost object that has the name,
// or -1. It makes a hash index when scanning would become quadratic.
func (p *parser) earlier(base int, name string, index map[string]int32) (int, map[string]int32) {
	fields := p.fields[base:]
	if index == nil {
		if len(fields) < indexedFrom {
			return scan(fields, name), nil
		}
		index = make(map[string]int32, 2*len(fields))
		for i := range fields {
			index[fields[i].Name] = int32(i)
		}
	}
	if i, ok := index[name]; ok {
		return int(i), index
	}
	return -1, index
}

// closeObject makes a map of the fields from base on. index may be nil.
func (p *parser) closeObject(base int, index map[string]int32) (Value, bool) {
	if !p.take(mapSize + fieldBytes*(len(p.fields)-base)) {
		return Value{}, false
	}
	p.fieldsUsed = max(p.fieldsUsed, len(p.fields))
	read := p.fields[base:]
	m := newMapData(len(read))
	size, depth := 0, uint16(0)
	copy(m.fields, read)
	for i := range read {
		f := &read[i]
		size += nameSize + len(f.Name) + f.Value.Size()
		depth = max(depth, f.Value.meta.depth())
	}
	if index != nil {
		m.index.Store(&index)
	}
	p.fields = p.fields[:base]
	return m.seal(size, depth), true
}

// A knownKey is a name that was read before. word holds its bytes if they are fewer
// than eight, so that comparing needs no call.
type knownKey struct {
	word uint64
	name string
}

// key reads a name, and returns a hash of it.
func (p *parser) key() (name string, hash uint64, ok bool) {
	raw, word, ok := p.name()
	if !ok {
		return "", 0, false
	}
	hash = mix(word, len(raw))
	known := &p.keys[hash>>56]
	if known.word == word && len(known.name) == len(raw) && (len(raw) < 8 || known.name == string(raw)) {
		return known.name, hash, true
	}
	if !p.take(len(raw)) {
		return "", 0, false
	}
	name = string(raw)
	if len(name) <= maxKey {
		*known = knownKey{word, name}
	}
	return name, hash, true
}

// name reads a name: its bytes, as quoted does, and a word for mix, which is all of a name
// of fewer than eight bytes.
func (s *scanner) name() (raw []byte, word uint64, ok bool) {
	if start := s.pos + 1; start+8 <= len(s.data) {
		// Most names are short, and all of one is in the first word.
		word := binary.LittleEndian.Uint64(s.data[start:])
		if m := special(word); m != 0 {
			n := bits.TrailingZeros64(m) / 8
			if s.data[start+n] == '"' {
				s.pos = start + n + 1
				return s.data[start : start+n], word & (1<<(8*n) - 1), true
			}
		}
	}
	if raw, ok = s.quoted(); !ok {
		return nil, 0, false
	}
	if n := len(raw); n >= 8 {
		word = binary.LittleEndian.Uint64(raw) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(raw[n-8:]), 17)
	} else {
		for i, c := range raw {
			word |= uint64(c) << (8 * i)
		}
	}
	return raw, word, true
}

// mix hashes the length and a word of a name. Collisions are rare enough.
func mix(word uint64, n int) uint64 {
	word = (word ^ uint64(n)<<57) * 0x9E3779B97F4A7C15
	return word ^ word>>32
}

func (p *parser) text() (string, bool) {
	raw, ok := p.quoted()
	if !ok || len(raw) == 0 {
		return "", ok
	}
	if len(raw) > maxInChunk {
		if !p.take(len(raw)) {
			return "", false
		}
		return string(raw), true
	}
	if len(raw) > cap(p.chunk)-len(p.chunk) {
		// The strings of the rest need about half of its bytes.
		n := max(len(raw), min(maxChunk, (len(p.data)-p.pos)/2))
		if !p.take(n) {
			return "", false
		}
		p.chunk = make([]byte, 0, n)
	}
	start := len(p.chunk)
	p.chunk = append(p.chunk, raw...)
	return unsafe.String(&p.chunk[start], len(raw)), true
}

// quoted reads a string and returns its bytes, which are valid until the next
// call.
func (s *scanner) quoted() (raw []byte, ok bool) {
	data := s.data
	start := s.pos + 1
	i := start
	for ; i+8 <= len(data); i += 8 {
		if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			i += bits.TrailingZeros64(m) / 8
			if data[i] == '"' {
				s.pos = i + 1
				return data[start:i], true
			}
			return s.quotedSlow(start, i)
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c == '"' {
			s.pos = i + 1
			return data[start:i], true
		} else if c < 0x20 || c == '\\' || c >= utf8.RuneSelf {
			return s.quotedSlow(start, i)
		}
	}
	return nil, s.fail(len(data), "string without end")
}

// quotedSlow goes on at i, where the string has a byte that is not plain.
func (s *scanner) quotedSlow(start, i int) (raw []byte, ok bool) {
	data := s.data
	for j := i; j < len(data); j++ { // no escapes and valid: nothing to rewrite
		if c := data[j]; c == '"' {
			if !utf8.Valid(data[i:j]) {
				break
			}
			s.pos = j + 1
			return data[start:j], true
		} else if c < 0x20 || c == '\\' {
			break
		}
	}
	out := append(s.scratch[:0], data[start:i]...)
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			s.pos, s.scratch = i+1, out
			return out, true
		case c == '\\':
			var n int
			if out, n = s.escape(out, i); n == 0 {
				return nil, false
			}
			i += n
		case c < 0x20:
			return nil, s.fail(i, fmt.Sprintf("control character %q in a string", c))
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, n := utf8.DecodeRune(data[i:])
			out = utf8.AppendRune(out, r) // RuneError is U+FFFD
			i += n
		}
	}
	return nil, s.fail(len(data), "string without end")
}

// escape appends what the escape at i means and returns its length, or 0 if it is
// invalid.
func (s *scanner) escape(out []byte, i int) ([]byte, int) {
	if i+1 >= len(s.data) {
		s.fail(len(s.data), "string without end")
		return out, 0
	}
	switch c := s.data[i+1]; c {
	case '"', '\\', '/':
		return append(out, c), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r, ok := s.hex4(i)
		if !ok {
			s.fail(i, `want four hexadecimal digits after \u`)
			return out, 0
		}
		if r >= 0xD800 && r < 0xDC00 {
			if low, ok := s.hex4(i + 6); ok && low >= 0xDC00 && low < 0xE000 {
				return utf8.AppendRune(out, (r-0xD800)<<10+(low-0xDC00)+0x10000), 12
			}
		}
		return utf8.AppendRune(out, r), 6 // half of a pair becomes U+FFFD
	}
	s.fail(i, "unknown escape in a string")
	return out, 0
}

func (s *scanner) hex4(i int) (rune, bool) {
	if i+6 > len(s.data) || s.data[i] != '\\' || s.data[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s.data[i+2 : i+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
