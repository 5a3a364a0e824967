package value

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"
)

// A jsonObject is an object whose text was checked, and whose fields are made when they are
// read. It is the source of a lazy map, whose memory it has.
type jsonObject struct {
	lazy   Lazy
	text   string // from brace to brace
	fields []jsonField
	parts  atomic.Int32 // how often a field was read that has to be made
	exact  bool         // the text is what the map is written as
}

// A jsonField says where a field is in the text of its object. A text that is longer than a
// jsonField can say is not read on demand.
type jsonField struct {
	name, nameEnd uint32 // without the quotes
	value         uint32
	end           uint32 // of the value; exactBit is set if it is written as it is in the text
}

const (
	exactBit     = 1 << 31
	maxOnDemand  = exactBit - 1 // bytes of a text
	mostIndexed  = 64           // fields of an object; of more, too many may have to be compared
	mostParts    = 4            // fields of an object that are made one by one before all of them are
	mostExact    = 15           // digits of a fraction that are its shortest form (DBL_DIG)
	leastFrac    = 6            // digits of a fraction below 1 from which on it may be written with an exponent
	pinnedAtMost = 4            // times as long as a part the text may be that it keeps, if that is longer than maxChunk
)

// A jsonList is a list whose text was checked, and whose elements are made when they are read.
type jsonList struct {
	text  string
	exact bool
	state atomic.Uint32 // not a pointer to made, nor a lock: with these, the elements of every list would escape to the heap
	made  []Value
}

// The states of a jsonList.
const (
	listUnread = iota
	listBeingMade
	listMade
)

// lazyList marks a list whose ptr is a *jsonList.
const lazyList meta = 1 << 24

// load returns the elements. Goroutines that are the first concurrently each make them, and
// one of them keeps them.
func (l *jsonList) load() []Value {
	if l.state.Load() == listMade {
		return l.made
	}
	elems := parseChecked(l.text).elems()
	if l.state.CompareAndSwap(listUnread, listBeingMade) {
		l.made = elems
		l.state.Store(listMade)
	}
	return elems
}

// Fields implements [FieldSource].
func (o *jsonObject) Fields() []Field { return (*mapData)(parseChecked(o.text).ptr).fields }

// parseChecked makes the whole value of a text that was checked.
func parseChecked(text string) Value {
	v, err := ParseJSONWith(unsafe.Slice(unsafe.StringData(text), len(text)), JSONOptions{MaxDepth: MaxDepth})
	if err != nil {
		panic("value: a text that was checked is not JSON: " + err.Error())
	}
	return v
}

// find returns the index of the field called name, or -1.
func (o *jsonObject) find(name string) int {
	for i := range o.fields {
		if f := &o.fields[i]; int(f.nameEnd-f.name) == len(name) && o.text[f.name:f.nameEnd] == name {
			return i
		}
	}
	return -1
}

// field returns the value of field i. It is not ok if so many were made already that all
// should be.
func (o *jsonObject) field(i int) (v Value, ok bool) {
	f := &o.fields[i]
	end := f.end &^ exactBit
	text, exact := o.text[f.value:end], f.end&exactBit != 0
	s := scanner{data: unsafe.Slice(unsafe.StringData(text), len(text))}
	switch c := text[0]; {
	case c == '"' && exact:
		return String(o.part(text[1 : len(text)-1])), true
	case c == 't', c == 'f':
		return Bool(c == 't'), true
	case c == 'n':
		return Value{}, true
	case c != '"' && c != '{' && c != '[':
		return s.number()
	}
	if o.parts.Add(1) > mostParts {
		return Value{}, false
	}
	switch {
	case text[0] == '"':
		s.scratch = make([]byte, 0, len(text))
		raw, ok := s.quoted()
		return String(unsafe.String(unsafe.SliceData(raw), len(raw))), ok
	case exact:
		return readPart(o.part(text)), true
	}
	return parseChecked(text), true
}

// write writes the fields, as text those that are written as they are.
func (o *jsonObject) write(w *writer, m *mapData, dst []byte) []byte {
	if o.exact {
		return append(dst, o.text...)
	}
	for i := range o.fields {
		f := &o.fields[i]
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(append(dst, o.text[f.name-1:f.nameEnd+1]...), ':')
		if f.end&exactBit != 0 {
			dst = append(dst, o.text[f.value:f.end&^exactBit]...)
			continue
		}
		v, ok := o.field(i)
		if !ok {
			v = m.load()[i].Value
		}
		dst = w.value(dst, v)
	}
	return append(dst, '}')
}

// part returns a part of the text, or a copy, so that it does not keep a text alive that is
// much longer.
func (o *jsonObject) part(s string) string {
	if len(o.text) > maxChunk && len(o.text) > pinnedAtMost*len(s) {
		return strings.Clone(s)
	}
	return s
}

// readPart makes a map or a list of a text that was checked, whose parts are made on demand.
func readPart(text string) Value {
	p := parsers.Get().(*parser)
	p.data, p.pos, p.errMsg, p.maxDepth = unsafe.Slice(unsafe.StringData(text), len(text)), 0, "", MaxDepth
	p.budget = budget{left: math.MaxInt}
	v, ok := p.onDemand(text)
	p.release()
	if !ok {
		return parseChecked(text)
	}
	return v
}

// A survey is what is known of a text that is checked and not parsed.
type survey struct {
	size   int         // what the value takes
	deep   int         // how deep it nests
	exact  bool        // so far, it is written as it is in the text
	hashes []uint64    // of the names of open objects, the innermost last
	index  []jsonField // of the outermost object
}

// onDemand checks the object or list at p.pos, and makes it with parts that are made on
// demand. text begins with it, or is empty, and then it is copied. It is not ok if the text has
// an error, or something that only the parser knows, such as a name that occurs twice.
func (p *parser) onDemand(text string) (v Value, ok bool) {
	start := p.pos
	y := &p.survey
	y.size, y.deep, y.exact, y.hashes, y.index = 0, 0, true, y.hashes[:0], y.index[:0]
	if len(p.data)-start > maxOnDemand {
		return Value{}, false
	}
	object, elems := p.data[start] == '{', 0
	if object {
		ok = p.checkObject(0, start)
	} else {
		elems, ok = p.checkArray(0)
	}
	if !ok {
		return Value{}, false
	}
	n := p.pos - start
	if !p.take(y.size + 2*n) { // what is made of it later, besides its text and the rest of a chunk
		return Value{}, true // the budget has the error
	}
	if text == "" {
		text = string(p.data[start:p.pos])
	}
	text = text[:n]
	if object {
		o := newJSONObject(len(y.index))
		copy(o.fields, y.index)
		o.text, o.exact = text, y.exact
		return o.lazy.Map(o, y.size+n, y.deep), true
	}
	return Value{
		ptr: unsafe.Pointer(&jsonList{text: text, exact: y.exact}), num: uint64(elems),
		meta: makeMeta(KindList, uint16(y.deep), uint32(min(y.size+n, math.MaxUint32))) | lazyList,
	}, true
}

// newJSONObject returns an object with n fields, for small n in one allocation, as
// newMapData does.
func newJSONObject(n int) *jsonObject {
	switch {
	case n <= 4:
		return jsonBlock[[4]jsonField](n)
	case n <= 8:
		return jsonBlock[[8]jsonField](n)
	case n <= 12:
		return jsonBlock[[12]jsonField](n)
	case n <= 20:
		return jsonBlock[[20]jsonField](n)
	}
	return &jsonObject{fields: make([]jsonField, n)}
}

func jsonBlock[A any](n int) *jsonObject {
	b := new(struct {
		object jsonObject
		fields A
	})
	b.object.fields = unsafe.Slice((*jsonField)(unsafe.Pointer(&b.fields)), n)
	return &b.object
}

// token returns the next byte that is not white space, which is not written.
func (p *parser) token() byte {
	if p.pos < len(p.data) {
		c := p.data[p.pos]
		if c > ' ' {
			return c
		}
		p.survey.exact = false
		if at := p.pos + 1; c == ' ' && at < len(p.data) && p.data[at] > ' ' { // as many programs write after a colon or a comma
			p.pos = at
			return p.data[at]
		}
	}
	return p.next()
}

// check checks a value that is nested in depth lists and maps.
func (p *parser) check(depth int) bool {
	switch p.token() {
	case '"':
		return p.checkText()
	case '{':
		return p.checkObject(depth, -1)
	case '[':
		_, ok := p.checkArray(depth)
		return ok
	case 't':
		p.survey.size += valueSize
		return p.word("true")
	case 'f':
		p.survey.size += valueSize
		return p.word("false")
	case 'n':
		p.survey.size += valueSize
		return p.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		p.survey.size += valueSize
		return p.checkNumber()
	}
	return false
}

// checkText checks a string. It is exact if it has no escapes, and is UTF-8.
func (p *parser) checkText() bool {
	data, start := p.data, p.pos+1
	i := start
	for ; i+8 <= len(data); i += 8 {
		if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			i += bits.TrailingZeros64(m) / 8
			if data[i] != '"' {
				return p.checkTextSlow(i)
			}
			p.pos = i + 1
			p.survey.size += valueSize + i - start
			return true
		}
	}
	return p.checkTextSlow(i)
}

// checkTextSlow is checkText from i on, before which all is plain.
func (p *parser) checkTextSlow(i int) bool {
	data, start, high := p.data, p.pos+1, false
	for i < len(data) {
		switch c := data[i]; {
		case c == '"':
			if high && !utf8.Valid(data[start:i]) { // what is not becomes longer
				p.survey.exact = false
				raw, ok := p.quoted()
				p.survey.size += valueSize + len(raw)
				return ok
			}
			p.pos = i + 1
			p.survey.size += valueSize + i - start
			return true
		case c == '\\':
			p.survey.exact = false
			if i+1 == len(data) {
				return false
			}
			switch data[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if _, ok := p.hex4(i); !ok {
					return false
				}
				i += 6
			default:
				return false
			}
		case c < 0x20:
			return false
		default:
			high = high || c >= utf8.RuneSelf
			i++
		}
	}
	return false
}

// checkNumber checks a number. It is exact if its digits are those of the shortest form:
// a fraction of at most mostExact digits is, unless it ends with 0.
func (p *parser) checkNumber() bool {
	data, start := p.data, p.pos
	i := start
	if i < len(data) && data[i] == '-' {
		i++
	}
	first := i
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	whole := i - first
	plain := whole > 0 && whole <= 18 && (data[first] != '0' || whole == 1 && first == start)
	if plain && i < len(data) && data[i] == '.' {
		point := i
		for i++; i < len(data) && data[i]-'0' <= 9; i++ {
		}
		digits := i - point - 1
		plain = digits > 0 && whole+digits <= mostExact && data[i-1] != '0' && (data[first] != '0' || digits < leastFrac)
	}
	if plain && (i == len(data) || data[i]|0x20 != 'e') {
		p.pos = i
		return true
	}
	p.survey.exact = false
	_, ok := p.number()
	return ok
}

// checkArray checks a list and counts its elements.
func (p *parser) checkArray(depth int) (n int, ok bool) {
	if !p.enter(depth) {
		return 0, false
	}
	y := &p.survey
	y.deep = max(y.deep, depth+1)
	y.size += valueSize
	if p.token() == ']' {
		p.pos++
		return 0, true
	}
	for {
		if !p.check(depth + 1) {
			return 0, false
		}
		n++
		switch p.token() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return n, true
		default:
			return 0, false
		}
	}
}

// checkObject checks an object. If start is not negative, its fields are indexed, with
// offsets from there.
func (p *parser) checkObject(depth, start int) bool {
	if !p.enter(depth) {
		return false
	}
	y := &p.survey
	y.deep = max(y.deep, depth+1)
	y.size += mapSize
	if p.token() == '}' {
		p.pos++
		return true
	}
	base, seen, exact := len(y.hashes), uint64(0), y.exact
	for {
		if p.token() != '"' {
			return false
		}
		at := p.pos + 1
		raw, word, ok := p.name()
		if !ok || len(raw) > 0 && &raw[0] != &p.data[at] {
			return false
		}
		hash := mix(word, len(raw))
		bit := uint64(1) << (hash & 63)
		if seen&bit != 0 && slices.Contains(y.hashes[base:], hash) { // twice, or of the same hash
			return false
		}
		seen |= bit
		if y.hashes = append(y.hashes, hash); len(y.hashes)-base > mostIndexed {
			return false
		}
		y.size += nameSize + len(raw)
		if p.token() != ':' {
			return false
		}
		p.pos++
		if start < 0 {
			if !p.check(depth + 1) {
				return false
			}
		} else {
			p.token()
			value := p.pos
			exact = exact && y.exact
			y.exact = true
			if !p.check(depth + 1) {
				return false
			}
			f := jsonField{uint32(at - start), uint32(at - start + len(raw)), uint32(value - start), uint32(p.pos - start)}
			if y.exact {
				f.end |= exactBit
			}
			exact = exact && y.exact
			y.index = append(y.index, f)
		}
		switch p.token() {
		case ',':
			p.pos++
			continue
		case '}':
			p.pos++
		default:
			return false
		}
		y.hashes = y.hashes[:base]
		y.exact = exact && y.exact
		return true
	}
}
