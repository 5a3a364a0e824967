package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/format"
)

// Bounds of what a file can make the reader hold. Writers keep pages near a megabyte; some
// make one of a whole row group.
const (
	maxPage   = 256 << 20 // bytes of a page, unpacked, and of the values of a batch that are put together
	maxHeld   = 1 << 30   // bytes of the pages and dictionaries of all columns together
	maxDeltas = 4 << 20   // values of a page that is decoded as a whole
	maxHeader = 1 << 20   // bytes of a page's header, which has the least and the greatest value

	// entrySize is what an entry of a dictionary takes here and in what the caller makes of it.
	entrySize = 72
)

// plainDictionary is how older writers call RLE_DICTIONARY in a page of data.
const plainDictionary format.Encoding = 2

// Values are stored values, in the slice for their type.
type Values struct {
	Ints   []int64 // Int32 with its sign, Int64; Boolean as 0 and 1
	Floats []float64
	Bytes  [][]byte // ByteArray, FixedLenByteArray, Int96: of the page or the dictionary, which is not changed
}

// Len returns the number of values.
func (v *Values) Len() int { return max(len(v.Ints), len(v.Floats), len(v.Bytes)) }

// A Run has the next entries of a column: one for each row, but in lists one for each
// element, and for each list without any. Its slices are valid until the next call.
type Run struct {
	N          int
	Defs, Reps []uint32 // levels of the entries; nil if all are 0

	// The values of the entries whose definition level is Leaf.MaxDef: Codes, of Dict, or
	// Values. Dict is another one whenever its content is.
	Present int
	Codes   []uint32
	Dict    *Values
	Values
}

// A Column reads the values of one column, one page at a time.
type Column struct {
	*Leaf
	name string
	leaf int
	file *File

	// The chunk of the current row group.
	group   int
	codec   format.CompressionCodec
	at, end int64 // the bytes of the file to be read
	unseen  int64 // entries in the pages behind the current one

	// The current page.
	left       int    // entries
	defs, reps hybrid // if MaxDef, MaxRep > 0
	packed     []byte // as it stands in the file
	buf        []byte // unpacked
	held       int64  // what packed, buf and the dictionary count for
	enc        format.Encoding
	data       []byte  // values not read yet: of PLAIN and RLE
	bit        int     // of booleans, in data[0]
	index      hybrid  // into dict, or booleans
	deltas     []int64 // of DELTA_BINARY_PACKED, or lengths
	prefix     []int64 // of DELTA_BYTE_ARRAY
	last       []byte  // its value before
	split      int     // values of BYTE_STREAM_SPLIT in the page
	done       int     // of them read

	dict     *Values
	dictHeld int64

	// The memory of a Run.
	levels, repeats, codes []uint32
	scratch                Values
	streams                []byte
}

// Start goes to the beginning of a row group.
func (c *Column) Start(group int) error {
	c.group = group
	return c.place(c.start(&c.file.meta.RowGroups[group].Columns[c.leaf], c.file.Groups[group]))
}

// place says where an error is.
func (c *Column) place(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return fmt.Errorf("row group %d, column %q: %w", c.group, c.name, err)
}

func (c *Column) start(chunk *format.ColumnChunk, rows int64) error {
	m := &chunk.MetaData
	if chunk.CryptoMetadata.Value != nil || len(chunk.EncryptedColumnMetadata) > 0 {
		return errors.New("the file is encrypted")
	}
	if chunk.FilePath != "" {
		return errors.New("the file has its columns in other files")
	}
	c.at = m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < c.at {
		c.at = d
	}
	if c.at < 4 || m.TotalCompressedSize < 0 || m.TotalCompressedSize > c.file.size-c.at {
		return errors.New("the footer names bytes that the file does not have")
	}
	if m.Type != c.Physical {
		return errors.New("the footer has two types for it")
	}
	if c.Physical == format.FixedLenByteArray && (c.Length <= 0 || c.Length > maxLength) {
		return fmt.Errorf("values of %d bytes are not read", c.Length)
	}
	c.end = c.at + m.TotalCompressedSize
	c.codec = m.Codec
	c.left, c.unseen = 0, rows
	if c.MaxRep > 0 {
		c.unseen = m.NumValues
	}
	c.dict = nil
	return nil
}

// Next returns the next entries, at most so many. The error is io.EOF behind the last one of
// the row group.
func (c *Column) Next(most int) (Run, error) {
	run, err := c.next(most)
	return run, c.place(err)
}

func (c *Column) next(most int) (run Run, err error) {
	for c.left == 0 {
		if c.unseen == 0 {
			return run, io.EOF
		}
		if err := c.page(); err != nil {
			return run, err
		}
	}
	n := min(most, c.left)
	run.N, run.Present = n, n
	if c.MaxRep > 0 {
		c.repeats = grown(c.repeats, n)
		if err := c.reps.read(c.repeats); err != nil {
			return run, err
		}
		run.Reps = c.repeats
	}
	if c.MaxDef > 0 {
		c.levels = grown(c.levels, n)
		if err := c.defs.read(c.levels); err != nil {
			return run, err
		}
		run.Defs, run.Present = c.levels, 0
		for _, l := range c.levels {
			if int(l) == c.MaxDef {
				run.Present++
			}
		}
	}
	c.left -= n
	return run, c.values(&run, run.Present)
}

func (c *Column) values(run *Run, n int) (err error) {
	switch c.enc {
	case plainDictionary, format.RLEDictionary:
		c.codes = grown(c.codes, n)
		if err := c.index.read(c.codes); err != nil {
			return err
		}
		highest := uint32(0)
		for _, code := range c.codes {
			highest = max(highest, code)
		}
		if c.dict == nil || n > 0 && int64(highest) >= int64(c.dict.Len()) {
			return errors.New("a page refers to a value that its dictionary has not")
		}
		run.Codes, run.Dict = c.codes, c.dict
		return nil
	case format.RLE:
		c.codes = grown(c.codes, n)
		if err := c.index.read(c.codes); err != nil {
			return err
		}
		c.scratch.Ints = grown(c.scratch.Ints, n)
		for i, code := range c.codes {
			c.scratch.Ints[i] = int64(code)
		}
	case format.DeltaBinaryPacked:
		if len(c.deltas) < n {
			return errPage
		}
		c.scratch.Ints, c.deltas = c.deltas[:n:n], c.deltas[n:]
		if c.Physical == format.Int32 { // they wrap as 64-bit integers
			for i, v := range c.scratch.Ints {
				c.scratch.Ints[i] = int64(int32(v))
			}
		}
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		err = c.lengths(n)
	case format.ByteStreamSplit:
		err = c.gather(n)
	default:
		c.data, err = c.plain(&c.scratch, c.data, n)
	}
	run.Values = c.scratch
	return err
}

// plain decodes n values, and returns the rest of b.
func (c *Column) plain(dst *Values, b []byte, n int) ([]byte, error) {
	switch c.Physical {
	case format.Boolean:
		if len(b)*8-c.bit < n {
			return nil, errPage
		}
		dst.Ints = grown(dst.Ints, n)
		for i := range dst.Ints {
			dst.Ints[i] = int64(b[c.bit>>3] >> (c.bit & 7) & 1)
			c.bit++
		}
		return b, nil
	case format.ByteArray:
		dst.Bytes = grown(dst.Bytes, n)
		for i := range dst.Bytes {
			if len(b) < 4 {
				return nil, errPage
			}
			size := binary.LittleEndian.Uint32(b)
			if uint64(size) > uint64(len(b)-4) {
				return nil, errPage
			}
			dst.Bytes[i] = b[4 : 4+size : 4+size]
			b = b[4+size:]
		}
		return b, nil
	}
	size := c.width()
	if n > len(b)/size {
		return nil, errPage
	}
	switch c.Physical {
	case format.Int32:
		dst.Ints = grown(dst.Ints, n)
		for i := range dst.Ints {
			dst.Ints[i] = int64(int32(binary.LittleEndian.Uint32(b[i*4:])))
		}
	case format.Int64:
		dst.Ints = grown(dst.Ints, n)
		for i := range dst.Ints {
			dst.Ints[i] = int64(binary.LittleEndian.Uint64(b[i*8:]))
		}
	case format.Float:
		dst.Floats = grown(dst.Floats, n)
		for i := range dst.Floats {
			dst.Floats[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i*4:])))
		}
	case format.Double:
		dst.Floats = grown(dst.Floats, n)
		for i := range dst.Floats {
			dst.Floats[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[i*8:]))
		}
	default:
		dst.Bytes = grown(dst.Bytes, n)
		for i := range dst.Bytes {
			dst.Bytes[i] = b[i*size : (i+1)*size : (i+1)*size]
		}
	}
	return b[n*size:], nil
}

// width returns the bytes of a value that has a fixed number of them.
func (c *Column) width() int {
	switch c.Physical {
	case format.Int32, format.Float:
		return 4
	case format.Int96:
		return 12
	case format.FixedLenByteArray:
		return c.Length
	}
	return 8
}

// lengths decodes bytes whose lengths, and the lengths of prefixes shared with the value
// before, are stored apart.
func (c *Column) lengths(n int) error {
	if len(c.deltas) < n || c.enc == format.DeltaByteArray && len(c.prefix) < n {
		return errPage
	}
	c.scratch.Bytes = grown(c.scratch.Bytes, n)
	for i := range n {
		size := c.deltas[i]
		if size < 0 || size > int64(len(c.data)) {
			return errPage
		}
		b := c.data[:size:size]
		c.data = c.data[size:]
		if c.enc == format.DeltaByteArray {
			shared := c.prefix[i]
			if shared < 0 || shared > int64(len(c.last)) {
				return errPage
			}
			if c.file.built += shared; c.file.built > maxPage {
				return fmt.Errorf("the texts of a batch have more than %d MiB", maxPage>>20)
			}
			if shared > 0 {
				b = append(c.last[:shared:shared], b...)
			}
			c.last = b
		}
		if c.Physical == format.FixedLenByteArray && len(b) != c.Length {
			return errPage
		}
		c.scratch.Bytes[i] = b
	}
	c.deltas = c.deltas[n:]
	if c.enc == format.DeltaByteArray {
		c.prefix = c.prefix[n:]
	}
	return nil
}

// gather decodes values whose bytes stand apart: first the first ones of all, and so on.
func (c *Column) gather(n int) error {
	if c.split-c.done < n {
		return errPage
	}
	size := c.width()
	if c.Physical == format.FixedLenByteArray {
		c.streams = nil // the caller may keep the values for a batch
	}
	c.streams = grown(c.streams, n*size)
	for i := range n {
		for k := range size {
			c.streams[i*size+k] = c.data[k*c.split+c.done+i]
		}
	}
	c.done += n
	_, err := c.plain(&c.scratch, c.streams, n)
	return err
}

// page moves on to the next page of data, taking a dictionary on the way.
func (c *Column) page() error {
	for {
		if c.at >= c.end {
			return errors.New("it has fewer rows than its row group")
		}
		var h format.PageHeader
		if err := c.header(&h); err != nil {
			return err
		}
		if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || int64(h.CompressedPageSize) > c.end-c.at {
			return errThrift
		}
		if h.UncompressedPageSize > maxPage || h.CompressedPageSize > maxPage {
			return fmt.Errorf("a page has more than %d MiB", maxPage>>20)
		}
		if h.Type != format.DataPage && h.Type != format.DataPageV2 && h.Type != format.DictionaryPage {
			c.at += int64(h.CompressedPageSize)
			continue
		}
		if err := c.load(&h); err != nil {
			return err
		}
		var err error
		switch {
		case h.Type == format.DictionaryPage:
			err = c.dictionary(&h)
		case h.Type == format.DataPage:
			err = c.dataPage(&h)
		default:
			err = c.dataPageV2(&h)
		}
		if err != nil || c.left > 0 {
			return err
		}
	}
}

func (c *Column) header(h *format.PageHeader) error {
	for size := int64(1024); ; size *= 8 {
		size = min(size, c.end-c.at)
		b := make([]byte, size)
		if err := c.file.readAt(b, c.at); err != nil {
			return err
		}
		used, err := unmarshal(b, h)
		if err == errThriftShort && size < c.end-c.at && size < maxHeader {
			continue
		}
		c.at += int64(used)
		return err
	}
}

func (c *Column) load(h *format.PageHeader) error {
	if c.Physical == format.ByteArray || c.Physical == format.FixedLenByteArray || c.Physical == format.Int96 {
		// Values of the batch and the dictionary may lend them.
		c.buf, c.packed = nil, nil
	}
	if err := c.hold(int64(h.CompressedPageSize) + int64(h.UncompressedPageSize) + c.dictHeld); err != nil {
		return err
	}
	c.packed = grown(c.packed, int(h.CompressedPageSize))
	if err := c.file.readAt(c.packed, c.at); err != nil {
		return err
	}
	c.at += int64(len(c.packed))
	if c.file.OnRead != nil {
		c.file.OnRead(int64(len(c.packed)))
	}
	if h.CRC != 0 && crc32.ChecksumIEEE(c.packed) != uint32(h.CRC) {
		return errors.New("the checksum of a page is wrong")
	}
	return nil
}

func (c *Column) hold(bytes int64) error {
	c.file.held += bytes - c.held
	c.held = bytes
	if c.file.held > maxHeld {
		return fmt.Errorf("the pages that must be held together have more than %d MiB", maxHeld>>20)
	}
	return nil
}

func (c *Column) dictionary(h *format.PageHeader) error {
	if !h.DictionaryPageHeader.Valid {
		return errThrift
	}
	if c.dict != nil {
		return errors.New("it has two dictionaries")
	}
	n := int(h.DictionaryPageHeader.V.NumValues)
	b, err := c.file.unpack(c.codec, &c.buf, c.packed, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	least := 4
	if c.Physical != format.ByteArray {
		least = c.width()
	}
	if c.Physical == format.Boolean || n < 0 || n > len(b)/least {
		return errPage
	}
	c.dictHeld = int64(len(b)) + entrySize*int64(n)
	if err := c.hold(c.held + entrySize*int64(n)); err != nil {
		return err
	}
	c.dict = new(Values)
	_, err = c.plain(c.dict, b, n)
	return err
}

func (c *Column) dataPage(h *format.PageHeader) error {
	p := h.DataPageHeader.V
	if !h.DataPageHeader.Valid || p.NumValues < 0 {
		return errThrift
	}
	b, err := c.file.unpack(c.codec, &c.buf, c.packed, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	if c.reps, b, err = levels(b, p.RepetitionLevelEncoding, c.MaxRep); err != nil {
		return err
	}
	if c.defs, b, err = levels(b, p.DefinitionLevelEncoding, c.MaxDef); err != nil {
		return err
	}
	return c.begin(p.Encoding, int(p.NumValues), b)
}

// levels takes levels from the front of a page of data.
func levels(b []byte, enc format.Encoding, most int) (h hybrid, rest []byte, err error) {
	if most == 0 {
		return h, b, nil
	}
	if enc != format.RLE {
		return h, nil, fmt.Errorf("levels are encoded as %s, which is not read", enc)
	}
	if b, rest, err = sized(b); err != nil {
		return h, nil, err
	}
	return hybrid{b: b, width: widthOf(most)}, rest, nil
}

// sized takes bytes with their number in front of them.
func sized(b []byte) (taken, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errPage
	}
	end := 4 + binary.LittleEndian.Uint32(b)
	return b[4:end], b[end:], nil
}

// dataPageV2 takes a page of the second version, whose levels are not packed.
func (c *Column) dataPageV2(h *format.PageHeader) error {
	p := h.DataPageHeaderV2.V
	defs, reps := int64(p.DefinitionLevelsByteLength), int64(p.RepetitionLevelsByteLength)
	if !h.DataPageHeaderV2.Valid || p.NumValues < 0 || defs < 0 || reps < 0 ||
		defs+reps > int64(min(len(c.packed), int(h.UncompressedPageSize))) {
		return errThrift
	}
	c.reps = hybrid{b: c.packed[:reps], width: widthOf(c.MaxRep)}
	c.defs = hybrid{b: c.packed[reps : reps+defs], width: widthOf(c.MaxDef)}
	b := c.packed[reps+defs:]
	if !p.IsCompressed.Valid || p.IsCompressed.V {
		var err error
		if b, err = c.file.unpack(c.codec, &c.buf, b, int(h.UncompressedPageSize)-int(defs+reps)); err != nil {
			return err
		}
	}
	return c.begin(p.Encoding, int(p.NumValues), b)
}

func (c *Column) begin(enc format.Encoding, n int, b []byte) (err error) {
	if int64(n) > c.unseen {
		return errors.New("it has more rows than its row group")
	}
	c.unseen -= int64(n)
	c.enc, c.left, c.data, c.bit = enc, n, b, 0
	bytes := c.Physical == format.ByteArray
	fixed := c.Physical == format.FixedLenByteArray
	integer := c.Physical == format.Int32 || c.Physical == format.Int64
	switch {
	case enc == format.Plain:
		return nil
	case enc == plainDictionary || enc == format.RLEDictionary:
		c.index = hybrid{}
		if len(b) > 0 { // none if all are missing
			if b[0] > 32 {
				return errPage
			}
			c.index = hybrid{b: b[1:], width: int(b[0])}
		}
		return nil
	case enc == format.RLE && c.Physical == format.Boolean:
		b, _, err = sized(b)
		c.index = hybrid{b: b, width: 1}
		return err
	case enc == format.DeltaBinaryPacked && integer,
		enc == format.DeltaLengthByteArray && bytes,
		enc == format.DeltaByteArray && (bytes || fixed):
		return c.beginDeltas(b)
	case enc == format.ByteStreamSplit && !bytes && c.Physical != format.Boolean && c.Physical != format.Int96:
		c.split, c.done = len(b)/c.width(), 0
		return nil
	}
	return fmt.Errorf("values are encoded as %s, which is not read for %s", enc, c.Physical)
}

func (c *Column) beginDeltas(b []byte) error {
	if c.left > maxDeltas {
		return fmt.Errorf("a page of delta encoding has more than %d values", maxDeltas)
	}
	var err error
	if c.enc == format.DeltaByteArray {
		c.last = nil
		if c.prefix, b, err = deltas(b, c.left); err != nil {
			return err
		}
	}
	c.deltas, c.data, err = deltas(b, c.left)
	return err
}
