package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// littleEndian reports whether numbers in memory lie as they do in files.
func littleEndian() bool {
	n := uint16(1)
	return *(*byte)(unsafe.Pointer(&n)) == 1
}

// errOrder is what machines get that number their bytes the other way: segments are
// used as they lie in the file.
func errOrder(name string) error {
	return fmt.Errorf("segment %s: segments can be used on little-endian machines alone", name)
}

// parse reads the header, the trailer and the footer. It believes nothing: the
// image may be any bytes.
func parse(name string, image []byte) (*Segment, error) {
	if !littleEndian() {
		return nil, errOrder(name)
	}
	s := &Segment{name: name, image: image, byName: make(map[string]*Column)}
	footer, err := s.findFooter()
	if err != nil {
		return nil, err
	}
	if err := s.footer(footer); err != nil {
		return nil, err
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	return s, nil
}

// findFooter checks the header and the trailer, and returns the footer.
func (s *Segment) findFooter() ([]byte, error) {
	image := s.image
	size := int64(len(image))
	all := span{0, size}
	if size < headerSize+trailerSize {
		return nil, s.damage(nameTrailer, all, "shorter than any segment")
	}
	head := image[:headerSize]
	if string(head[:8]) != headMagic {
		return nil, s.damage(nameHeader, span{0, 8}, "not a segment")
	}
	if v := binary.LittleEndian.Uint16(head[8:]); v != version {
		return nil, fmt.Errorf("segment %s: format %d, this program reads format %d", s.name, v, version)
	}
	if binary.LittleEndian.Uint32(head[12:]) != pageSize || binary.LittleEndian.Uint32(head[16:]) != byteOrder {
		return nil, s.damage(nameHeader, span{12, 8}, "unknown page size or byte order")
	}
	at := span{size - trailerSize, trailerSize}
	tail := image[at.off:]
	if string(tail[28:]) != tailMagic || crc32.Checksum(tail[:24], castagnoli) != binary.LittleEndian.Uint32(tail[24:]) {
		return nil, s.damage(nameTrailer, at, "cut off, or not what was written")
	}
	off, length := binary.LittleEndian.Uint64(tail), uint64(binary.LittleEndian.Uint32(tail[8:]))
	if off < headerSize || off > uint64(at.off) || off+length != uint64(at.off) || binary.LittleEndian.Uint64(tail[16:]) != uint64(size) {
		return nil, s.damage(nameTrailer, at, "describes a file of another length")
	}
	footer := image[off:at.off]
	if crc32.Checksum(footer, castagnoli) != binary.LittleEndian.Uint32(tail[12:]) {
		return nil, s.damage(nameFooter, span{int64(off), int64(length)}, "checksum differs")
	}
	s.body = int64(off)
	return footer, nil
}

func (s *Segment) footer(b []byte) error {
	at := span{s.body, int64(len(b))}
	seen := 0
	for len(b) > 0 {
		tag := b[0]
		n, used := binary.Uvarint(b[1:])
		if used <= 0 || n > uint64(len(b)-1-used) {
			return s.damage(nameFooter, at, "a record has no end")
		}
		c := &cursor{b: b[1+used:][:n]}
		b = b[1+used+int(n):]
		if seen == 0 && tag != tagSummary {
			return s.damage(nameFooter, at, "does not begin with the summary")
		}
		if tag < 16 && tag != tagColumn {
			if seen&(1<<tag) != 0 {
				return s.damage(nameFooter, at, fmt.Sprintf("two records of kind %d", tag))
			}
			seen |= 1 << tag
		}
		switch tag {
		case tagSummary:
			s.readSummary(c)
		case tagUsers, tagHalves:
			s.readUsers(c, tag == tagHalves)
		case tagTimes, tagGaps:
			s.readTimes(c, tag == tagGaps)
		case tagSets:
			s.readSets(c)
		case tagBlocks:
			s.readBlocks(c)
		case tagColumn:
			if err := s.readColumn(c); err != nil {
				return err
			}
		case tagPages:
			s.sums = c.b
			c.b = nil
		default:
			if tag%2 == 1 {
				return fmt.Errorf("segment %s: written by a newer version: unknown record %d", s.name, tag)
			}
		}
		if c.bad {
			return s.damage(nameFooter, at, fmt.Sprintf("nonsense in a record of kind %d", tag))
		}
	}
	const want = 1<<tagSummary | 1<<tagPages
	if seen&want != want || (seen>>tagTimes+seen>>tagGaps)&1 == 0 || (seen>>tagUsers+seen>>tagHalves)&1 == 0 {
		return s.damage(nameFooter, at, "records are missing")
	}
	return nil
}

func (s *Segment) readSummary(c *cursor) {
	s.rows = int(c.uint(MaxRows))
	s.users = int(c.uint(uint64(s.rows)))
	s.minTime, s.maxTime = c.int(), c.int()
	c.bad = c.bad || s.minTime > s.maxTime || (s.rows > 0) != (s.users > 0)
}

func (s *Segment) readUsers(c *cursor, inHalves bool) {
	s.hashAt = c.span(s.body, int64(s.users), 8, 0)
	s.starts.parse(c, s, inHalves)
	s.ids.read(c, s.body, s.users)
	if c.bad {
		return
	}
	s.hashes = viewOf[uint64](s, s.hashAt)
	s.name1(nameUsers, s.hashAt)
	s.name1(nameUsers, s.starts.at)
	s.name1(nameUsers, s.starts.baseAt)
	s.name1(nameIDs, s.ids.offsets)
	s.name1(nameIDs, s.ids.data)
}

func (s *Segment) readTimes(c *cursor, asGaps bool) {
	t := &s.times
	t.s = s
	t.base = c.int()
	t.unit = int64(c.uint(1000))
	if asGaps {
		t.gaps = &gaps{}
		t.gaps.read(c, s)
		c.bad = c.bad || t.unit != 1 && t.unit != 1000
		return
	}
	t.bits = int64(c.uint(32))
	t.at = c.span(s.body, 1, packedBytes(int64(s.rows), t.bits), 0)
	if t.unit != 1 && t.unit != 1000 {
		c.bad = true
	}
	if c.bad {
		return
	}
	t.data = s.image[t.at.off:][:t.at.len]
	if t.bits == 32 {
		t.plain = viewOf[uint32](s, t.at)[:s.rows]
	}
	s.name1(nameTimes, t.at)
}

func (s *Segment) readSets(c *cursor) {
	names := int(c.uint(64))
	width := int(c.uint(8))
	at := c.span(s.body, int64(s.users), int64(width), 0)
	if width != setWidth(names) || c.bad {
		c.bad = true
		return
	}
	s.sets = &Sets{s: s, names: names, width: width, at: at, data: s.image[at.off:][:at.len]}
	s.name1(nameSets, at)
}

func (s *Segment) readColumn(c *cursor) error {
	col := &Column{s: s, rows: s.rows}
	m := &col.meta
	m.role = role(c.uint(255))
	m.name = c.text()
	m.typ = event.Type(c.uint(uint64(event.Bool)))
	m.missing = int(c.uint(uint64(s.rows)))
	m.codes = int(c.uint(maxCodes))
	m.dict = dictKind(c.uint(255))
	if c.bad {
		return nil
	}
	if m.role > roleIDs || m.dict >= dictEnd {
		return fmt.Errorf("segment %s: %s: written by a newer version", s.name, m.section())
	}
	m.readDict(c, s.body)
	m.enc = encoding(c.uint(255))
	if !c.bad && m.enc >= encEnd {
		return fmt.Errorf("segment %s: %s: written by a newer version: unknown encoding %d", s.name, m.section(), m.enc)
	}
	m.readCodes(c, s)
	if c.bad {
		return nil
	}
	return s.addColumn(c, col)
}

func (m *meta) readDict(c *cursor, body int64) {
	n := int64(max(m.codes-1, 0))
	switch m.dict {
	case dictNone:
		c.bad = c.bad || m.codes != 0 || m.role != roleIDs && m.typ != event.Int && m.typ != event.Float
		return
	case dictRange:
		m.min = c.int()
		m.scale = int(c.uint(maxScale))
		c.bad = c.bad || m.typ == event.Int && m.scale != 0 || m.typ != event.Int && m.typ != event.Float
		c.bad = c.bad || n > 0 && m.min > math.MaxInt64-(n-1)
	case dictValues:
		m.terms = c.span(body, n, 8, 0)
		c.bad = c.bad || m.typ != event.Int && m.typ != event.Float
	case dictText:
		m.terms = c.span(body, n+1, 4, 0)
		m.text = c.anySpan(body)
		c.bad = c.bad || m.typ != event.String
	case dictPackedText:
		m.ends = int(c.uint(32))
		m.terms = c.span(body, 1, packedBytes(n+1, int64(m.ends)), 0)
		m.text = c.anySpan(body)
		c.bad = c.bad || m.typ != event.String
	case dictBool:
		c.bad = c.bad || m.codes != 3 || m.typ != event.Bool
	}
	c.bad = c.bad || m.codes < 1
}

func (m *meta) readCodes(c *cursor, s *Segment) {
	rows := int64(s.rows)
	coded := true
	switch m.enc {
	case encConstant:
		m.fixed = uint32(c.uint(math.MaxUint32))
		c.bad = c.bad || int64(m.fixed) >= int64(m.codes)
	case encPlain:
		m.width = c.width()
		m.data = c.span(s.body, rows, int64(m.width), 0)
	case encPacked:
		m.width = int(c.uint(32))
		m.data = c.span(s.body, 1, packedBytes(rows, int64(m.width)), 0)
	case encUser:
		m.width = c.width()
		m.data = c.span(s.body, int64(s.users), int64(m.width), 0)
	case encSparse:
		m.fixed = uint32(c.uint(math.MaxUint32))
		m.width = c.width()
		m.count = int(c.uint(uint64(rows)))
		m.places = c.span(s.body, int64(m.count), 4, 0)
		m.data = c.span(s.body, int64(m.count), int64(m.width), 0)
		c.bad = c.bad || int64(m.fixed) >= int64(m.codes)
	case encRuns:
		m.width = c.width()
		m.count = int(c.uint(uint64(rows)))
		m.places = c.span(s.body, int64(m.count), 1, 0)
		m.data = c.span(s.body, int64(m.count), int64(m.width), 0)
		m.index = c.span(s.body, (rows+runBlock-1)/runBlock, 8, 0)
	case encDigits:
		m.fixed = uint32(c.uint(math.MaxUint32))
		m.width = int(c.uint(maxBase))
		if m.width < 2 {
			c.bad = true
			return
		}
		m.data = c.span(s.body, digitBytes(rows, m.width), 1, 0)
		c.bad = c.bad || int64(m.fixed)+int64(m.width) > int64(min(m.codes, 256))
	case encPresent:
		m.width = int(c.uint(32))
		m.count = int(c.uint(uint64(rows)))
		m.places = c.span(s.body, (rows+63)/64, 8, 0)
		m.index = c.span(s.body, (rows+runBlock-1)/runBlock, 4, 0)
		m.data = c.span(s.body, 1, packedBytes(int64(m.count), int64(m.width)), 0)
	case encUserSparse:
		m.width = c.width()
		m.count = int(c.uint(uint64(rows)))
		m.data = c.span(s.body, int64(s.users), int64(m.width), 0)
		m.places = c.span(s.body, int64(m.count), 2, 0)
		m.index = c.span(s.body, (rows+stripe-1)/stripe+1, 4, 0)
		m.others = c.span(s.body, int64(m.count), int64(m.width), 0)
	case encRaw:
		m.data = c.span(s.body, rows, 8, 0)
		coded = false
	case encRawSparse:
		m.count = int(c.uint(uint64(rows)))
		m.places = c.span(s.body, int64(m.count), 4, 0)
		m.data = c.span(s.body, int64(m.count), 8, 0)
		coded = false
	}
	c.bad = c.bad || coded == (m.dict == dictNone)
}

func (c *cursor) width() int {
	w := int(c.uint(4))
	c.bad = c.bad || w != 1 && w != 2 && w != 4
	return w
}

func (s *Segment) addColumn(c *cursor, col *Column) error {
	m := &col.meta
	s.all = append(s.all, col)
	switch m.role {
	case roleEvents:
		c.bad = c.bad || s.events != nil || m.typ != event.String
		s.events = col
	case roleIDs:
		c.bad = c.bad || s.eventIDs != nil || m.dict != dictNone
		s.eventIDs = col
	default:
		c.bad = c.bad || s.byName[m.name] != nil || m.typ == event.Unknown
		s.columns = append(s.columns, col)
		s.byName[m.name] = col
		s.schema = append(s.schema, event.Field{Name: m.name, Type: m.typ})
	}
	if c.bad {
		return nil
	}
	col.lend()
	s.name1(m.dictSection(), m.terms)
	s.name1(m.dictSection(), m.text)
	for _, p := range []span{m.places, m.data, m.index, m.others} {
		s.name1(m.section(), p)
	}
	return nil
}

// name1 remembers what a span holds.
func (s *Segment) name1(name string, p span) {
	if p.len > 0 {
		s.sections = append(s.sections, section{name, p})
	}
}

// complete checks what needs all records.
func (s *Segment) complete() error {
	pages := (s.body + pageSize - 1) >> pageBits
	if int64(len(s.sums)) != pages*4 || s.events == nil || s.sets != nil && s.sets.names != s.events.codes-1 || !s.giveBlocks() {
		return s.damage(nameFooter, span{s.body, int64(len(s.image)) - trailerSize - s.body}, "records do not go together")
	}
	s.checked = newBitmap(pages)
	return nil
}
