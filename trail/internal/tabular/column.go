package tabular

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Bounds of what a Parquet file can make the reader hold. Writers keep pages near
// a megabyte; some make one of a whole row group.
const (
	maxPage   = 256 << 20 // bytes of a page, unpacked
	maxHeld   = 1 << 30   // bytes of the pages and dictionaries of all columns together
	maxDeltas = 4 << 20   // values of a page that is decoded as a whole
	maxHeader = 1 << 20   // bytes of a page's header, which has the least and the greatest value
)

// plainDictionary is how older writers call RLE_DICTIONARY in a page of data.
const plainDictionary format.Encoding = 2

// A column reads the values of one column of a Parquet file, one page at a time.
type column struct {
	target
	name   string
	role   int // colUser …, or roles + index of the property
	leaf   int // which of the leaves of the schema
	maxDef int // definition level of a value that is there
	file   *pages

	// The chunk of the current row group.
	codec   format.CompressionCodec
	at, end int64 // the bytes of the file to be read

	// The current page.
	left   int    // rows
	unseen int64  // rows of the chunk in the pages behind it
	levels hybrid // if maxDef > 0
	packed []byte // as it stands in the file
	buf    []byte // unpacked
	held   int64  // what packed, buf and the dictionary count for
	enc    format.Encoding
	data   []byte  // values not read yet: of PLAIN and RLE
	bit    int     // of booleans, in data[0]
	index  hybrid  // into dict, or booleans
	deltas []int64 // of DELTA_BINARY_PACKED, or lengths
	prefix []int64 // of DELTA_BYTE_ARRAY
	last   []byte  // its value before
	built  int64   // bytes of its values that were put together for the batch
	split  int     // values of BYTE_STREAM_SPLIT in the page
	done   int     // of them read

	dict     []event.Value
	terms    []string         // of dict, if strings are wanted as codes
	coded    bool             // they are
	empty    bool             // terms has an empty one
	dictBad  map[uint32]error // entries that cannot be a value of the type
	dictHeld int64

	level        []uint32
	codes        []uint32
	scratch      []event.Value
	scratchCodes []uint32
	errs         []valueError // of the batch
}

// A valueError is a value that cannot be taken.
type valueError struct {
	row int // of the batch
	err error
}

func (c *column) start(chunk *format.ColumnChunk, rows int64) error {
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
	if m.Type != c.physical {
		return errors.New("the footer has two types for it")
	}
	c.end = c.at + m.TotalCompressedSize
	c.codec = m.Codec
	c.left, c.unseen = 0, rows
	c.dict, c.dictBad, c.terms = nil, nil, nil
	return nil
}

// read reads the next n rows into dst[0], dst[stride] and so on. If strings are wanted
// as codes, it sets the same places of codes: to 0, or to the place in terms, from 1
// on, instead of the value.
func (c *column) read(dst []event.Value, codes []uint32, stride, n int) error {
	c.errs, c.built = c.errs[:0], 0
	for row := 0; row < n; {
		if c.left == 0 {
			if err := c.page(); err != nil {
				return err
			}
			continue
		}
		m := min(n-row, c.left)
		var to []uint32
		if c.coded {
			to = codes[row*stride:]
		}
		if err := c.rows(dst[row*stride:], to, stride, m, row); err != nil {
			return err
		}
		row += m
		c.left -= m
	}
	return nil
}

// rows reads m rows of the page; the first is row base of the batch.
func (c *column) rows(dst []event.Value, codes []uint32, stride, m, base int) error {
	if c.maxDef == 0 {
		return c.values(dst, codes, stride, m, base)
	}
	c.level = grown(c.level, m)
	if err := c.levels.read(c.level); err != nil {
		return err
	}
	present := 0
	for _, l := range c.level {
		if int(l) == c.maxDef {
			present++
		}
	}
	if present == m {
		return c.values(dst, codes, stride, m, base)
	}
	c.scratch = grown(c.scratch, present)
	var scratch []uint32
	if codes != nil {
		c.scratchCodes = grown(c.scratchCodes, present)
		scratch = c.scratchCodes
	}
	fails := len(c.errs)
	if err := c.values(c.scratch, scratch, 1, present, 0); err != nil {
		return err
	}
	k := 0
	for i, l := range c.level {
		if int(l) != c.maxDef {
			dst[i*stride] = event.Value{}
			if codes != nil {
				codes[i*stride] = 0
			}
			continue
		}
		if codes != nil {
			codes[i*stride] = scratch[k]
		}
		if fails < len(c.errs) && c.errs[fails].row == k {
			c.errs[fails].row = base + i
			fails++
		}
		dst[i*stride] = c.scratch[k]
		k++
	}
	return nil
}

// grown returns a slice of n elements, s if it is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// put stores the i-th value of a call of values, or its error.
func (c *column) put(dst []event.Value, stride, i, base int, v event.Value, err error) {
	dst[i*stride] = v
	if err != nil {
		c.errs = append(c.errs, valueError{base + i, err})
	}
}

func (c *column) values(dst []event.Value, codes []uint32, stride, n, base int) error {
	indexed := c.enc == plainDictionary || c.enc == format.RLEDictionary
	if codes != nil && !indexed {
		for i := range n {
			codes[i*stride] = 0
		}
	}
	switch c.enc {
	case plainDictionary, format.RLEDictionary:
		c.codes = grown(c.codes, n)
		if err := c.index.read(c.codes); err != nil {
			return err
		}
		for i, code := range c.codes {
			if int64(code) >= int64(len(c.dict)) {
				return errors.New("a page refers to a value that its dictionary has not")
			}
			if codes != nil {
				codes[i*stride] = code + 1
			} else {
				dst[i*stride] = c.dict[code]
			}
		}
		if codes != nil && c.empty {
			for i, code := range c.codes {
				if c.terms[code] == "" {
					codes[i*stride], dst[i*stride] = 0, event.Value{}
				}
			}
		}
		if len(c.dictBad) > 0 {
			for i, code := range c.codes {
				if err := c.dictBad[code]; err != nil {
					c.errs = append(c.errs, valueError{base + i, err})
				}
			}
		}
		return nil
	case format.RLE:
		c.codes = grown(c.codes, n)
		if err := c.index.read(c.codes); err != nil {
			return err
		}
		for i, code := range c.codes {
			v, err := c.ofBool(code != 0)
			c.put(dst, stride, i, base, v, err)
		}
		return nil
	case format.DeltaBinaryPacked:
		if len(c.deltas) < n {
			return errPage
		}
		for i, d := range c.deltas[:n] {
			v, err := c.ofInt(d)
			c.put(dst, stride, i, base, v, err)
		}
		c.deltas = c.deltas[n:]
		return nil
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		return c.lengths(dst, stride, n, base)
	case format.ByteStreamSplit:
		return c.streams(dst, stride, n, base)
	}
	return c.plain(dst, stride, n, base)
}

func (c *column) plain(dst []event.Value, stride, n, base int) error {
	if c.physical == format.Boolean {
		if len(c.data)*8-c.bit < n {
			return errPage
		}
		for i := range n {
			v, err := c.ofBool(c.data[c.bit>>3]>>(c.bit&7)&1 == 1)
			c.put(dst, stride, i, base, v, err)
			c.bit++
		}
		return nil
	}
	if c.physical == format.ByteArray {
		for i := range n {
			if len(c.data) < 4 {
				return errPage
			}
			size := binary.LittleEndian.Uint32(c.data)
			if uint64(size) > uint64(len(c.data)-4) {
				return errPage
			}
			v, err := c.ofBytes(c.data[4 : 4+size : 4+size])
			c.data = c.data[4+size:]
			c.put(dst, stride, i, base, v, err)
		}
		return nil
	}
	size := c.size()
	if n > len(c.data)/size {
		return errPage
	}
	b := c.data[:n*size]
	c.data = c.data[n*size:]
	if c.physical == format.Int64 && c.meaning == meansItself && c.typ == event.Int && !c.time {
		for i := range n {
			v := int64(binary.LittleEndian.Uint64(b[i*8:]))
			dst[i*stride] = event.IntOf(v)
			if v == math.MinInt64 {
				c.put(dst, stride, i, base, event.Value{}, errLeast)
			}
		}
		return nil
	}
	for i := range n {
		v, err := c.fixed(b[i*size : (i+1)*size : (i+1)*size])
		c.put(dst, stride, i, base, v, err)
	}
	return nil
}

func (c *column) size() int {
	switch c.physical {
	case format.Int32, format.Float:
		return 4
	case format.Int96:
		return 12
	case format.FixedLenByteArray:
		return c.length
	}
	return 8
}

func (c *column) fixed(b []byte) (event.Value, error) {
	switch c.physical {
	case format.Int32:
		return c.ofInt(int64(int32(binary.LittleEndian.Uint32(b))))
	case format.Int64:
		return c.ofInt(int64(binary.LittleEndian.Uint64(b)))
	case format.Int96:
		return c.of96(b)
	case format.Float:
		return c.ofFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case format.Double:
		return c.ofFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return c.ofBytes(b)
}

// lengths reads texts whose lengths, and the lengths of prefixes shared with the text
// before, are stored apart.
func (c *column) lengths(dst []event.Value, stride, n, base int) error {
	if len(c.deltas) < n || c.enc == format.DeltaByteArray && len(c.prefix) < n {
		return errPage
	}
	for i := range n {
		size := c.deltas[i]
		if size < 0 || size > int64(len(c.data)) {
			return errPage
		}
		text := c.data[:size:size]
		c.data = c.data[size:]
		if c.enc == format.DeltaByteArray {
			shared := c.prefix[i]
			if shared < 0 || shared > int64(len(c.last)) {
				return errPage
			}
			if shared+size > maxRecord {
				return errors.New("a value is longer than 1 MiB")
			}
			if c.built += shared; c.built > maxPage {
				return fmt.Errorf("the texts of a batch have more than %d MiB", maxPage>>20)
			}
			if shared > 0 {
				text = append(c.last[:shared:shared], text...)
			}
			c.last = text
		}
		v, err := c.ofSized(text)
		c.put(dst, stride, i, base, v, err)
	}
	c.deltas = c.deltas[n:]
	if c.enc == format.DeltaByteArray {
		c.prefix = c.prefix[n:]
	}
	return nil
}

func (c *column) ofSized(b []byte) (event.Value, error) {
	if c.physical == format.FixedLenByteArray && len(b) != c.length {
		return event.Value{}, errPage
	}
	return c.ofBytes(b)
}

func (c *column) streams(dst []event.Value, stride, n, base int) error {
	if c.split-c.done < n {
		return errPage
	}
	size := c.size()
	all := make([]byte, n*size) // the values may lend it
	for i := range n {
		b := all[i*size : (i+1)*size : (i+1)*size]
		for k := range b {
			b[k] = c.data[k*c.split+c.done+i]
		}
		v, err := c.fixed(b)
		c.put(dst, stride, i, base, v, err)
	}
	c.done += n
	return nil
}

// page moves on to the next page of data, taking a dictionary on the way.
func (c *column) page() error {
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

func (c *column) header(h *format.PageHeader) error {
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

func (c *column) load(h *format.PageHeader) error {
	if c.physical == format.ByteArray || c.physical == format.FixedLenByteArray {
		// Values of the batch and the dictionary may lend them.
		c.buf, c.packed = nil, nil
	}
	held := int64(h.CompressedPageSize) + int64(h.UncompressedPageSize) + c.dictHeld
	if err := c.hold(held); err != nil {
		return err
	}
	c.packed = grown(c.packed, int(h.CompressedPageSize))
	if err := c.file.readAt(c.packed, c.at); err != nil {
		return err
	}
	c.at += int64(len(c.packed))
	c.file.onRead(int64(len(c.packed)))
	if h.CRC != 0 && crc32.ChecksumIEEE(c.packed) != uint32(h.CRC) {
		return errors.New("the checksum of a page is wrong")
	}
	return nil
}

func (c *column) hold(bytes int64) error {
	c.file.held += bytes - c.held
	c.held = bytes
	if c.file.held > maxHeld {
		return fmt.Errorf("the pages that must be held together have more than %d MiB", maxHeld>>20)
	}
	return nil
}

func (c *column) dictionary(h *format.PageHeader) error {
	if !h.DictionaryPageHeader.Valid {
		return errThrift
	}
	if c.dict != nil {
		return errors.New("it has two dictionaries")
	}
	n := int(h.DictionaryPageHeader.V.NumValues)
	var err error
	if c.data, err = c.file.unpack(c.codec, &c.buf, c.packed, int(h.UncompressedPageSize)); err != nil {
		return err
	}
	least := 4
	if c.physical != format.ByteArray {
		least = c.size()
	}
	if c.physical == format.Boolean || n < 0 || n > len(c.data)/least {
		return errPage
	}
	entries := 32 * int64(n)
	if c.coded {
		entries += 16 * int64(n)
	}
	c.dictHeld = int64(len(c.data)) + entries
	if err := c.hold(c.held + entries); err != nil {
		return err
	}
	c.dict, c.dictBad = make([]event.Value, n), nil
	fails := len(c.errs)
	if err := c.plain(c.dict, 1, n, 0); err != nil {
		return err
	}
	for _, f := range c.errs[fails:] {
		if c.dictBad == nil {
			c.dictBad = make(map[uint32]error)
		}
		c.dictBad[uint32(f.row)] = f.err
	}
	c.errs = c.errs[:fails]
	if c.coded {
		c.terms = make([]string, n)
		c.empty = false
		for i := range c.terms {
			c.terms[i] = c.dict[i].Text()
			c.empty = c.empty || c.terms[i] == ""
		}
	}
	return nil
}

func (c *column) dataPage(h *format.PageHeader) error {
	p := h.DataPageHeader.V
	if !h.DataPageHeader.Valid || p.NumValues < 0 {
		return errThrift
	}
	b, err := c.file.unpack(c.codec, &c.buf, c.packed, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	if c.maxDef > 0 {
		if p.DefinitionLevelEncoding != format.RLE {
			return fmt.Errorf("levels are encoded as %s, which is not read", p.DefinitionLevelEncoding)
		}
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return errPage
		}
		size := binary.LittleEndian.Uint32(b)
		c.levels = hybrid{b: b[4 : 4+size], width: widthOf(c.maxDef)}
		b = b[4+size:]
	}
	return c.begin(p.Encoding, int(p.NumValues), b)
}

// dataPageV2 takes a page of the second version, whose levels are not packed.
func (c *column) dataPageV2(h *format.PageHeader) error {
	p := h.DataPageHeaderV2.V
	levels, repeats := int64(p.DefinitionLevelsByteLength), int64(p.RepetitionLevelsByteLength)
	if !h.DataPageHeaderV2.Valid || p.NumValues < 0 || levels < 0 || repeats < 0 ||
		levels+repeats > int64(min(len(c.packed), int(h.UncompressedPageSize))) {
		return errThrift
	}
	if c.maxDef > 0 {
		c.levels = hybrid{b: c.packed[repeats : repeats+levels], width: widthOf(c.maxDef)}
	}
	b := c.packed[repeats+levels:]
	want := int(h.UncompressedPageSize) - int(levels+repeats)
	if !p.IsCompressed.Valid || p.IsCompressed.V {
		var err error
		if b, err = c.file.unpack(c.codec, &c.buf, b, want); err != nil {
			return err
		}
	}
	return c.begin(p.Encoding, int(p.NumValues), b)
}

func (c *column) begin(enc format.Encoding, n int, b []byte) error {
	if int64(n) > c.unseen {
		return errors.New("it has more rows than its row group")
	}
	c.unseen -= int64(n)
	c.enc, c.left, c.data, c.bit = enc, n, b, 0
	bytes := c.physical == format.ByteArray
	fixed := c.physical == format.FixedLenByteArray
	integer := c.physical == format.Int32 || c.physical == format.Int64
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
	case enc == format.RLE && c.physical == format.Boolean:
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return errPage
		}
		c.index = hybrid{b: b[4 : 4+binary.LittleEndian.Uint32(b)], width: 1}
		return nil
	case enc == format.DeltaBinaryPacked && integer,
		enc == format.DeltaLengthByteArray && bytes,
		enc == format.DeltaByteArray && (bytes || fixed):
		return c.beginDeltas(b)
	case enc == format.ByteStreamSplit && !bytes && c.physical != format.Boolean && c.physical != format.Int96:
		c.split, c.done = len(b)/c.size(), 0
		return nil
	}
	return fmt.Errorf("values are encoded as %s, which is not read for %s", enc, c.physical)
}

func (c *column) beginDeltas(b []byte) error {
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

// pages has what the columns of a file share: the file and the memory budget.
type pages struct {
	r      io.ReaderAt
	size   int64
	held   int64
	onRead func(n int64) // called with the bytes of each page
	unpacker
}

// readAt fills b; the end of the file is an error.
func (p *pages) readAt(b []byte, at int64) error {
	n, err := p.r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return errors.New("the file ends too early")
	}
	return err
}
